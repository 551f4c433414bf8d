// A test that fails on purpose: its cluster tells what waits.
import { Kafka } from "kafkajs";
import { expect, test } from "vitest";
import { useKafka } from "purgatorio/vitest";

const kafka = useKafka({ topics: { orders: 1 } });

test("a follower is held, and forgotten", async () => {
  for (const id of [1, 2, 3]) await kafka.operations.changeFollower({ id, held: true });
  const producer = new Kafka(kafka.kafkajs({ clientId: "shop" })).producer();
  await producer.connect();
  producer.send({ topic: "orders", messages: [{ value: "paid" }] }).catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect((await kafka.records("orders")).length).toBe(1);
});
