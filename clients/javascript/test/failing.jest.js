// A test that fails on purpose: its cluster tells what waits.
const { Kafka } = require("kafkajs");
const { useKafka } = require("purgatorio/jest");

const kafka = useKafka({ topics: { orders: 1 } });

let producer;

afterEach(async () => {
  await producer.disconnect(); // after the report
  console.error("the producer is closed");
});

test("a follower is held, and forgotten", async () => {
  for (const id of [1, 2, 3]) await kafka.holdFollower(id);
  producer = new Kafka(kafka.kafkajs({ clientId: "shop" })).producer();
  await producer.connect();
  producer.send({ topic: "orders", messages: [{ value: "paid" }] }).catch(() => {});
  await kafka.untilParked({ client: "shop" });
  expect((await kafka.records("orders")).length).toBe(1);
});
