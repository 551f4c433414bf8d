"use strict";
// A Kafka cluster for tests, which is a process of its own: `const kafka = await startKafka({ topics: { orders: 6 } })`.

const { ClusterProcess } = require("./cluster_process.js");
const OPERATIONS = require("./operations.js");

/** Milliseconds: what a member waits for between heartbeats, and a client before it asks again. */
const HEARTBEAT_MS = 100;
const RETRY_MS = 10;
const MAX_RETRY_MS = 100;
const GIVE_UP_MS = 10_000;

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

class Kafka {
  #process;

  constructor(process) {
    this.#process = process;
    this.bootstrap = process.told.bootstrap;
    this.brokers = this.bootstrap.split(",");
    this.adminUrl = process.told.admin_url;
    this.schemaRegistryUrl = process.told.schema_registry_url ?? null;
    this.operations = {};
    for (const [name, declared] of Object.entries(OPERATIONS)) {
      this.operations[name] = (given = {}) => this.#ask(declared, given);
    }
  }

  /** Settings of kafkajs with which a client needs milliseconds where others need seconds. */
  kafkajs(more = {}) {
    const retry = { initialRetryTime: RETRY_MS, maxRetryTime: MAX_RETRY_MS, retries: 100 };
    return { clientId: "test", brokers: this.brokers, retry, logLevel: 0, ...more };
  }

  /** Settings of a consumer of kafkajs: it polls often, as it ends only when its last poll has ended. */
  kafkajsConsumer(groupId, more = {}) {
    return { groupId, heartbeatInterval: HEARTBEAT_MS, sessionTimeout: GIVE_UP_MS, maxWaitTimeInMs: HEARTBEAT_MS, ...more };
  }

  /** Settings of a client over librdkafka, such as @confluentinc/kafka-javascript; roles: "consumer", "producer". */
  librdkafka(role) {
    const backoff = { "retry.backoff.ms": RETRY_MS, "retry.backoff.max.ms": MAX_RETRY_MS, "reconnect.backoff.ms": RETRY_MS, "reconnect.backoff.max.ms": MAX_RETRY_MS };
    const roles = {
      consumer: { "heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": GIVE_UP_MS },
      producer: { "message.timeout.ms": GIVE_UP_MS },
    };
    return { "bootstrap.servers": this.bootstrap, ...backoff, ...(roles[role] ?? {}) };
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

  /** What waits in the cluster, and why, as text; a failed test shows it. */
  async report() {
    return (await this.operations.report()).text;
  }

  /** Make the cluster as it was at its start, in milliseconds; clients that live on connect again. */
  async reset() {
    await this.operations.reset();
  }

  /** End the cluster; resolves when its process is gone. */
  async stop() {
    await this.#process.stop();
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.stop();
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
    const answer = await fetch(url, { method, headers, body: method === "POST" ? JSON.stringify(left) : undefined });
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

module.exports = { startKafka, Kafka, KafkaRefused };
