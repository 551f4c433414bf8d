"use strict";
// A Kafka cluster for tests, which is a process of its own: `const kafka = await startKafka({ topics: { orders: 6 } })`.

const { ClusterProcess } = require("./cluster_process.js");
const { Clock, Controls, Fault, ShareGroup } = require("./controls.js");
const OPERATIONS = require("./operations.js");

/** Milliseconds: what a member waits for between heartbeats, and a client before it asks again. */
const HEARTBEAT_MS = 100;
const RETRY_MS = 10;
const MAX_RETRY_MS = 100;
const GIVE_UP_MS = 10_000;
/** kafkajs closes when its requests are answered or given up; runners of tests give their hooks five seconds. */
const KAFKAJS_REQUEST_MS = 3_000;

const BACKOFF = { "retry.backoff.ms": RETRY_MS, "retry.backoff.max.ms": MAX_RETRY_MS, "reconnect.backoff.ms": RETRY_MS, "reconnect.backoff.max.ms": MAX_RETRY_MS };
const LIBRDKAFKA = {
  consumer: { "heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": GIVE_UP_MS },
  producer: { "message.timeout.ms": GIVE_UP_MS },
};

/** The settings of a client library for a role. */
const CLIENTS = {
  // A consumer polls often, as it ends only when its last poll has ended.
  kafkajs: (kafka, role) =>
    role === "consumer"
      ? { heartbeatInterval: HEARTBEAT_MS, sessionTimeout: GIVE_UP_MS, maxWaitTimeInMs: HEARTBEAT_MS }
      : {
          clientId: "test",
          brokers: kafka.brokers,
          retry: { initialRetryTime: RETRY_MS, maxRetryTime: MAX_RETRY_MS, retries: 100 },
          requestTimeout: KAFKAJS_REQUEST_MS,
          logLevel: 0,
        },
  confluent: (kafka, role) => ({ "bootstrap.servers": kafka.bootstrap, ...BACKOFF, ...LIBRDKAFKA[role] }),
};

/** The cluster refused an operation; `status` is that of HTTP. */
class KafkaRefused extends Error {
  constructor(message, status) {
    super(message);
    this.name = "KafkaRefused";
    this.status = status;
  }
}

/** Start a cluster; resolves when clients can connect. */
async function startKafka(options = {}) {
  return new Kafka(await ClusterProcess.start(options));
}

class Kafka extends Controls {
  #process;

  constructor(process) {
    super();
    this.#process = process;
    this.bootstrap = process.told.bootstrap;
    this.brokers = this.bootstrap.split(",");
    this.adminUrl = process.told.admin_url;
    this.schemaRegistryUrl = process.told.schema_registry_url ?? null;
    this.operations = {};
    for (const [name, declared] of Object.entries(OPERATIONS)) {
      this.operations[name] = (given = {}) => this.#ask(declared, given);
    }
    this.clock = new Clock(this);
  }

  /**
   * Settings with which a client of this library needs milliseconds where others need seconds, and gives up in time.
   *
   * Libraries: "kafkajs", "confluent" (and others over librdkafka); roles: "consumer", "producer",
   * "admin". A consumer of kafkajs is made with settings of its own: `client.consumer({ groupId, ...settings })`.
   */
  clientConfig(library, role) {
    const ofLibrary = CLIENTS[library];
    if (ofLibrary === undefined) throw new TypeError(`there is no client library ${library}; there is ${Object.keys(CLIENTS).join(", ")}`);
    if (![undefined, "consumer", "producer", "admin"].includes(role)) throw new TypeError(`a role is consumer, producer or admin, not ${role}`);
    return ofLibrary(this, role);
  }

  /** Settings of kafkajs, and more. */
  kafkajs(more = {}) {
    return { ...this.clientConfig("kafkajs"), ...more };
  }

  /** Settings of a consumer of kafkajs, and more. */
  kafkajsConsumer(groupId, more = {}) {
    return { groupId, ...this.clientConfig("kafkajs", "consumer"), ...more };
  }

  /** A share group, which need not exist yet. */
  shareGroup(id) {
    return new ShareGroup(this, id);
  }

  /** The ids of the running brokers. */
  async runningBrokers() {
    const { brokers } = await this.operations.listBrokers();
    return brokers.filter((each) => each.state === "running").map((each) => each.id);
  }

  /** Create a topic; resolves with its name when it can be written to. */
  async topic(name, { partitions, replicas, configs } = {}) {
    const texts = configs && Object.fromEntries(Object.entries(configs).map(([key, value]) => [key, String(value)]));
    await this.operations.createTopic({ name, partitions, replicas, configs: texts });
    return name;
  }

  /** Append records with acks=all, without a client; resolves with partition and offset of each. */
  async produce(topic, ...records) {
    const answer = await this.operations.produceRecords({ topic, records: records.map(written) });
    return answer.records;
  }

  /** The committed records of a topic, by partition and offset, without a client. */
  async records(topic, { partition, isolationLevel } = {}) {
    const found = [];
    const partitions = partition === undefined ? await this.#partitionsOf(topic) : [partition];
    for (const each of partitions) {
      let offset = 0;
      for (let more = true; more; ) {
        const given = { topic, partition: each, offset, limit: 10_000, isolation_level: isolationLevel };
        const answer = await this.operations.readRecords(given);
        found.push(...answer.records.map((record) => read(topic, record)));
        more = answer.more;
        if (more) offset = answer.records.at(-1).offset + 1;
      }
    }
    return found;
  }

  async #partitionsOf(topic) {
    const { partitions } = await this.operations.listTopics({ topic });
    if (partitions.length === 0) await this.operations.readRecords({ topic, limit: 0 }); // tells which topics there are
    return partitions.map((each) => each.partition);
  }

  /** End the cluster; resolves when its process is gone. */
  async close() {
    await this.#process.stop();
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }

  async #ask({ method, path, query, body }, given) {
    const left = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
    const filled = path.replace(/{(\w+)}/g, (_, name) => {
      if (left[name] === undefined) throw new TypeError(`${name} is missing`);
      const value = encodeURIComponent(left[name]);
      delete left[name];
      return value;
    });
    const search = new URLSearchParams();
    for (const name of query) {
      if (left[name] !== undefined) search.set(name, String(left[name]));
      delete left[name];
    }
    const unknown = body === null ? undefined : Object.keys(left).find((name) => !body.includes(name));
    if (unknown !== undefined) throw new TypeError(`there is no ${unknown}; there is ${[...query, ...body].join(", ") || "nothing"}`);
    const headers = { "Content-Type": "application/json" };
    const token = this.#process.told.token ?? process.env.PURGATORIO_ADMIN_TOKEN;
    if (token) headers.Authorization = `Bearer ${token}`;
    const url = `${this.adminUrl}/api/v1${filled}${search.size ? `?${search}` : ""}`;
    const sent = { method, headers, body: method === "GET" ? undefined : JSON.stringify(left) };
    const answer = await fetch(url, sent).catch((error) => {
      throw new Error(`the Kafka cluster does not answer: ${error.cause?.message || error.message}${this.#process.lastWords()}`);
    });
    const told = await answer.json();
    if (!answer.ok) throw new KafkaRefused(told.error, answer.status);
    return told;
  }
}

/** A record as the cluster's HTTP takes it: text, bytes, or an object with key, value, headers, partition, timestampMs. */
function written(record) {
  const given = typeof record === "string" || record === null || Buffer.isBuffer(record) ? { value: record } : record;
  const { key, value, headers = {}, partition, timestampMs, ...others } = given;
  const unknown = Object.keys(others)[0];
  if (unknown) throw new TypeError(`a record has no ${unknown}, only key, value, headers, partition, timestampMs`);
  const pairs = Object.entries(headers).map(([name, each]) => ({ name, ...bytes("value", each) }));
  return { ...bytes("key", key), ...bytes("value", value), headers: pairs, partition, timestamp_ms: timestampMs };
}

function bytes(name, value) {
  if (value === undefined || value === null) return {};
  return value instanceof Uint8Array ? { [`${name}_base64`]: Buffer.from(value).toString("base64") } : { [name]: value };
}

function read(topic, { partition, offset, timestamp_ms, headers, ...rest }) {
  const [key, value] = [buffer("key", rest), buffer("value", rest)];
  return {
    topic,
    partition,
    offset,
    timestampMs: timestamp_ms,
    key: key && key.toString(),
    value: value && value.toString(),
    keyBytes: key,
    valueBytes: value,
    headers: Object.fromEntries(headers.map((each) => [each.name, buffer("value", each)?.toString() ?? null])),
  };
}

function buffer(name, from) {
  const encoded = from[`${name}_base64`];
  if (encoded !== undefined) return Buffer.from(encoded, "base64");
  return from[name] === null ? null : Buffer.from(from[name]);
}

module.exports = { startKafka, Kafka, KafkaRefused, Clock, Fault, ShareGroup };
