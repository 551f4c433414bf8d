// The kit under jest, with kafkajs.
const { Kafka } = require("kafkajs");
const { useKafka } = require("purgatorio/jest");

const kafka = useKafka({ topics: { orders: 1 } });

test("kafkajs produces and consumes", async () => {
  const client = new Kafka(kafka.kafkajs());
  const producer = client.producer();
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ value: "paid" }] });
  await producer.disconnect();
  const consumer = client.consumer(kafka.kafkajsConsumer("billing"));
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  const value = await new Promise((resolve, reject) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
  });
  await consumer.disconnect();
  expect(value).toBe("paid");
});

test("the test before this one has left nothing", async () => {
  expect(await kafka.records("orders")).toEqual([]);
});
