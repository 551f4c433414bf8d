"use strict";
// Tests that fail on purpose, each by a common mistake: the first line of the report says which.
const { Kafka } = require("kafkajs");

/** Three tests for the cluster of a file, by a runner's `test` and `expect`. */
function mistakes(kafka, test, expect) {
  const closing = [];

  async function reads(clientId) {
    const consumer = new Kafka(kafka.kafkajs({ clientId })).consumer(kafka.kafkajsConsumer("billing"));
    closing.push(() => consumer.disconnect());
    await consumer.connect();
    await consumer.subscribe({ topic: "orders" });
    const values = [];
    await consumer.run({ eachMessage: async ({ message }) => values.push(message.value.toString()) });
    return values;
  }

  test("a consumer starts after the record", async () => {
    await kafka.produce("orders", "tea");
    const values = await reads("late");
    await kafka.untilParked({ api: "Fetch", client: "late" });
    expect(values).toEqual(["tea"]);
  });

  test("two members share a topic of one partition", async () => {
    await reads("one");
    await kafka.untilParked({ api: "Fetch", client: "one" });
    const values = await reads("two");
    await kafka.untilGroup("billing", { state: "Stable", members: 2 });
    await kafka.produce("orders", "tea");
    expect(values).toEqual(["tea"]);
  });

  test("the topic has another name", async () => {
    const producer = new Kafka(kafka.kafkajs({ clientId: "shop", retry: { retries: 1 } })).producer({
      allowAutoTopicCreation: false,
    });
    closing.push(() => producer.disconnect());
    await producer.connect();
    await producer.send({ topic: "order", messages: [{ value: "tea" }] });
  });

  return async () => {
    for (const close of closing.splice(0)) await close();
  };
}

module.exports = { mistakes };
