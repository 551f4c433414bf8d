// A worker with kafkajs; see `harness.py`.
//
// It commits offsets in a transaction without the member's generation, and reads committed offsets that a pending
// transaction is about to change (no KIP-447): a loop with it needs one transactional id per input partition, and ignores
// what it knows that it has copied, when a rebalance takes its consumer back. And a `send` to several partitions loses the
// records of one whose leadership moves, between two attempts, to a broker that has answered for others (tulios/kafkajs
// #1303, #1798): here each has one record.
const { writeSync } = require("fs");
const { createInterface } = require("readline");
const { Kafka, logLevel } = require("kafkajs");

const kafka = new Kafka({ brokers: process.argv[2].split(","), logLevel: logLevel.NOTHING });
let producer, transaction;
let stopping = false;

function say(...words) {
  writeSync(1, words.join(" ").replace(/\s+/g, " ").trim() + "\n");
}

async function producerOf(transactionalId) {
  const made = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1, transactionTimeout: 20000 });
  await made.connect();
  return made;
}

const commands = {
  // kafkajs asks for its producer id when the first transaction begins.
  init: async (transactionalId) => {
    producer = await producerOf(transactionalId);
    transaction = await producer.transaction();
  },
  begin: async () => {
    if (!transaction || !transaction.isActive()) transaction = await producer.transaction();
  },
  send: async (topic, value) => {
    await transaction.send({ topic, messages: [{ value, partition: 0 }] });
  },
  commit: async () => transaction.commit(),
  abort: async () => transaction.abort(),
  read: async (topic, isolation, count) => {
    const readUncommitted = isolation === "uncommitted";
    const consumer = kafka.consumer({ groupId: `reader-${topic}-${isolation}-${Date.now()}`, readUncommitted });
    const values = [];
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await new Promise((resolve) => {
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ message }) => {
          values.push(message.value.toString());
          if (values.length === Number(count)) resolve();
        },
      });
    });
    await consumer.disconnect();
    return values;
  },
  copy: async (...words) => {
    while (!stopping) {
      try {
        await copy(...words);
      } catch (error) {
        say("restarted", error);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  },
};

async function copy(source, target, groupId, transactionalId) {
  const copying = await producerOf(transactionalId);
  // The first transaction begins when the last one of this id has ended: only then are the group's offsets true.
  let next = await copying.transaction();
  const consumer = kafka.consumer({
    groupId, sessionTimeout: 6000, heartbeatInterval: 1000, maxWaitTimeInMs: 200, retry: { retries: 0 },
  });
  const copied = new Map();
  let fail;
  const failed = new Promise((_, reject) => { fail = reject; });
  consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error));
  const stopped = new Promise((resolve) => {
    const timer = setInterval(() => { if (stopping) { clearInterval(timer); resolve(); } }, 50);
  });
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [source], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch: { partition, messages }, heartbeat, isRunning }) => {
        const news = messages.filter(({ offset }) => Number(offset) >= (copied.get(partition) || 0));
        if (!isRunning() || stopping || !news.length) return;
        try {
          const current = next || await copying.transaction();
          next = null;
          for (const { value } of news) await current.send({ topic: target, messages: [{ key: value, value }] });
          const offset = String(Number(news[news.length - 1].offset) + 1);
          await current.sendOffsets({
            consumerGroupId: groupId, topics: [{ topic: source, partitions: [{ partition, offset }] }],
          });
          await current.commit();
          copied.set(partition, Number(offset));
          say("copied", news.length);
        } catch (error) {
          fail(error);
          throw error;
        }
        await heartbeat();
      },
    });
    await Promise.race([failed, stopped]);
  } finally {
    await consumer.disconnect().catch(() => {});
    await copying.disconnect().catch(() => {});
  }
}

const FENCED = ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"];

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [name, ...words] = line.split(" ");
    if (name === "copy") process.stdin.on("end", () => { stopping = true; });
    try {
      const values = await commands[name](...words);
      say(...(values ? ["values", values.join(",")] : ["ok"]));
    } catch (error) {
      const cause = error.cause || error;
      say(...(FENCED.includes(cause.type) || FENCED.includes(error.type) ? ["fenced"] : ["error", error]));
    }
  }
  process.exit(0);
}

main();
