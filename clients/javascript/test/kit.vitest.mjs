// The kit under vitest, with kafkajs.
import { Kafka } from "kafkajs";
import { expect, test } from "vitest";
import { KafkaRefused, startKafka, useKafka } from "purgatorio/vitest";

const kafka = useKafka({ topics: { orders: 3 }, settings: { "auto.create.topics.enable": false } });

/** Consume so many values of a topic with kafkajs. */
async function consumed(topic, count) {
  const consumer = new Kafka(kafka.kafkajs()).consumer(kafka.kafkajsConsumer("billing"));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const values = [];
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ message }) => {
      values.push(message.value.toString());
      if (values.length === count) resolve();
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
  return values;
}

test("kafkajs produces and consumes", async () => {
  const producer = new Kafka(kafka.kafkajs()).producer();
  await producer.connect();
  await producer.send({ topic: "orders", acks: -1, messages: [{ key: "17", value: "paid" }] });
  await producer.disconnect();
  expect(await consumed("orders", 1)).toEqual(["paid"]);
  expect(await kafka.records("orders")).toMatchObject([{ key: "17", value: "paid", offset: 0, headers: {} }]);
});

test("the test before this one has left nothing", async () => {
  expect(await kafka.records("orders")).toEqual([]);
  expect((await kafka.operations.listGroups()).groups).toEqual([]);
});

test("records are produced without a client", async () => {
  await kafka.topic("bills", { partitions: 2, configs: { "retention.ms": 60000 } });
  const told = await kafka.produce(
    "bills",
    "text",
    { value: { id: 17 }, partition: 1, headers: { trace: "9f" }, timestampMs: 5 },
    { key: Buffer.from([0xff]), value: null, partition: 0 },
  );
  expect(told).toEqual([{ partition: 0, offset: 0 }, { partition: 1, offset: 0 }, { partition: 0, offset: 1 }]);
  const [first, second, third] = await kafka.records("bills");
  expect(first.value).toBe("text");
  expect(second).toMatchObject({ value: null, keyBytes: Buffer.from([0xff]) });
  expect(third).toMatchObject({ value: '{"id":17}', headers: { trace: "9f" }, timestampMs: 5 });
});

test("many records are read in parts", async () => {
  const values = Array.from({ length: 10_000 }, (_, number) => ({ value: String(number), partition: 0 }));
  for (let from = 0; from < values.length; from += 1_000) await kafka.produce("orders", ...values.slice(from, from + 1_000));
  await kafka.produce("orders", ...values.slice(0, 1_000));
  const found = await kafka.records("orders", { partition: 0 });
  expect(found.length).toBe(11_000);
  expect(found.at(-1)).toMatchObject({ value: "999", offset: 10_999 });
});

test("what is refused is told with its status", async () => {
  await expect(kafka.records("bils")).rejects.toThrow("there is no topic 'bils', only orders");
  await expect(kafka.operations.killBroker({ id: 9 })).rejects.toMatchObject({ status: 404 });
  await expect(kafka.operations.killBroker({ id: 9 })).rejects.toBeInstanceOf(KafkaRefused);
  await expect(kafka.operations.killBroker({})).rejects.toThrow("id is missing");
  await expect(kafka.operations.killBroker({ id: 1, force: true })).rejects.toThrow("there is no force; there is nothing");
  await expect(kafka.produce("orders", { vlaue: "paid" })).rejects.toThrow("a record has no vlaue, only key");
});

test("a fault fails a request of kafkajs, which asks again", async () => {
  await kafka.operations.addFault({ api: "Produce", error: "NOT_LEADER_OR_FOLLOWER", count: 1 });
  const producer = new Kafka(kafka.kafkajs()).producer();
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ value: "paid" }] });
  await producer.disconnect();
  const { faults } = await kafka.operations.listFaults();
  expect(faults[0].fired).toBe(1);
  expect(await kafka.report()).toContain("fired 1 time");
});

test("a cluster of its own ends with its test", async () => {
  const own = await startKafka({ brokers: 1 });
  expect(own.brokers.length).toBe(1);
  await own.close();
  await expect(own.report()).rejects.toThrow(/^the Kafka cluster does not answer: .*; it ended with 0$/);
});

test("a cluster that cannot start says why", async () => {
  await expect(startKafka({ settings: { "log.retenton.ms": 1 } })).rejects.toThrow("did you mean log.retention.ms?");
  await expect(startKafka({ command: "no-such-command" })).rejects.toThrow("there is no command no-such-command: install it from a clone");
});

test.extend({ topic: async ({}, use) => use(await kafka.topic("bills")) })("a test has fixtures of its own", async ({ topic }) => {
  expect(await kafka.records(topic)).toEqual([]);
});
