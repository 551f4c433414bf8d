// The names of the Python kit, in JavaScript.
import { KafkaClient } from "@kafkats/client";
import { Kafka } from "kafkajs";
import { expect, test } from "vitest";
import { useKafka } from "purgatorio/vitest";

const kafka = useKafka({ topics: { orders: 1 } });

/** Send a record with acks=all; resolves with the producer, and with what becomes of the record. */
async function sending(value) {
  const producer = new Kafka(kafka.kafkajs({ clientId: "shop" })).producer();
  await producer.connect();
  const sent = producer.send({ topic: "orders", timeout: 5_000, messages: [{ value }] }).then(
    () => "acknowledged",
    (error) => error.message,
  );
  return { producer, sent };
}

test("a held follower lets acks=all wait, until it is released", async () => {
  await kafka.moveLeader("orders", { to: 1 });
  await kafka.holdFollower(3);
  const { producer, sent } = await sending("paid");
  const [parked] = await kafka.untilParked({ api: "Produce", topic: "orders", client: "shop" });
  expect(parked).toMatchObject({ broker: 1, purgatory: "Produce", client: "shop" });
  expect(parked.missing).toContain("broker 3 is at 0 of 1");
  expect(parked.leftMs).toBeGreaterThan(0);
  expect(await kafka.parked({ client: "shop" })).toHaveLength(1);
  await kafka.release();
  expect(await sent).toBe("acknowledged");
  await producer.disconnect();
});

test("a parked request is expired, and the client asks again", async () => {
  for (const broker of await kafka.runningBrokers()) await kafka.holdFollower(broker);
  const { producer, sent } = await sending("paid");
  const [first] = await kafka.untilParked({ client: "shop" });
  await kafka.expire(first);
  await expect(kafka.expire(first)).rejects.toMatchObject({ status: 404 });
  await kafka.untilParked({ client: "shop" });
  for (const broker of [1, 2, 3]) await kafka.release(broker);
  expect(await sent).toBe("acknowledged");
  await producer.disconnect();
});

test("leaders are found, moved and taken away", async () => {
  expect(await kafka.moveLeader("orders", { partition: 0, to: 2 })).toBe(2);
  expect(await kafka.leader("orders")).toBe(2);
  await kafka.noLeader("orders");
  expect(await kafka.moveLeader("orders", { to: 3 })).toBe(3);
  await expect(kafka.moveLeader("orders", { too: 1 })).rejects.toThrow("there is no too; there is partition, to");
});

test("brokers are stopped, killed, paused, cut off, and come back", async () => {
  await kafka.stop(1);
  expect(await kafka.runningBrokers()).toEqual([2, 3]);
  await kafka.start(1);
  await kafka.kill(2);
  await kafka.start(2);
  await kafka.pause(3);
  await kafka.resume(3);
  await kafka.resume();
  await kafka.partition([1], [2, 3]);
  await kafka.heal();
  expect(await kafka.addBroker({ rack: "b" })).toBe(4);
  await kafka.untilInSync("orders");
  await expect(kafka.kill()).rejects.toThrow("kill(broker): broker is missing");
  await expect(kafka.kill(9)).rejects.toMatchObject({ status: 404 });
});

test("the brokers' time is moved", async () => {
  for (const broker of [1, 2, 3]) await kafka.holdFollower(broker);
  const { producer } = await sending("paid");
  await kafka.untilParked({ client: "shop" });
  await kafka.clock.freeze();
  const before = await kafka.clock.nowMs();
  const ended = await kafka.clock.advance(6.5);
  expect(await kafka.clock.nowMs()).toBe(before + 6_500);
  expect(ended.find((each) => each.client === "shop")).toMatchObject({ purgatory: "Produce", missing: expect.stringContaining("at 0 of 1") });
  await kafka.clock.unfreeze();
  await kafka.release();
  await producer.disconnect();
});

test("faults are counted, held and removed", async () => {
  const fault = await kafka.fault({ api: "Produce", error: "NOT_LEADER_OR_FOLLOWER", count: 1 });
  const { producer, sent } = await sending("paid");
  expect(await fault.untilFired({ times: 1 })).toBe(1);
  expect(await sent).toBe("acknowledged");
  expect([await fault.fired(), await fault.held()]).toEqual([1, 0]);
  expect(await fault.matched()).toBeGreaterThan(0);
  const hidden = await kafka.hide(2);
  const slow = await kafka.network("latency", { latency_ms: 1, client: "shop" });
  expect((await kafka.faults()).map((each) => each.id)).toEqual([fault.id, hidden.id, slow.id]);
  await hidden.remove();
  await hidden.remove();
  await slow.release();
  await kafka.quota({ producer_byte_rate: 1_000_000 }, { clientId: "shop" });
  await kafka.clearFaults();
  expect(await kafka.faults()).toEqual([]);
  await expect(fault.fired()).rejects.toThrow("there is no fault rule");
  await producer.disconnect();
});

test("groups are waited for, and their members expire", async () => {
  expect(await kafka.group("billing")).toBe(null);
  const consumer = new Kafka(kafka.kafkajs({ clientId: "biller" })).consumer(kafka.kafkajsConsumer("billing"));
  await consumer.connect();
  await consumer.subscribe({ topic: "orders" });
  await consumer.run({ eachMessage: async () => {} });
  const group = await kafka.untilGroup("billing", { state: "Stable", members: 1 });
  expect(group).toMatchObject({ name: "billing", state: "Stable", members: [{ client: "biller" }] });
  expect(await kafka.clients()).toContain("biller");
  expect(await kafka.explain("billing")).toContain("billing");
  await expect(kafka.explain("biling")).rejects.toMatchObject({ status: 404 });
  expect(await kafka.explain()).toContain("brokers: 1 at ");
  expect(await kafka.expireMember("billing", { member: "biller" })).toBe(group.members[0].id);
  const to = group.coordinator === 1 ? 2 : 1;
  expect(await kafka.moveGroupCoordinator("billing", { to })).toBe(to);
  await consumer.disconnect();
  await expect(kafka.untilGroup("billing", { members: 9, timeoutMs: 1 })).rejects.toThrow("untilGroup(\"billing\", {\"members\":9");
});

test("the records that a share group has in flight are listed, and their locks run out", async () => {
  const client = new KafkaClient({ clientId: "mailer", brokers: kafka.brokers });
  await client.connect();
  const worker = client.shareConsumer({ groupId: "mailers" });
  const group = kafka.shareGroup("mailers");
  const seen = new Promise((resolve, reject) => {
    const each = async () => resolve([await group.inFlight(), await group.expireLocks()]);
    worker.runEach("orders", each).catch(reject);
  });
  while ((await group.members()).length === 0); // it begins with the records that come after its first fetch
  await kafka.produce("orders", "tea");
  const [inFlight, expired] = await seen;
  expect(inFlight).toMatchObject([{ topic: "orders", partition: 0, firstOffset: 0, lastOffset: 0, state: "acquired", deliveryCount: 1 }]);
  expect(inFlight[0].lockLeftMs).toBeGreaterThan(0);
  expect(expired).toBe(1);
  await worker.stop();
  await client.disconnect();
});

test("a snapshot is restored", async () => {
  await kafka.produce("orders", "tea");
  const snapshot = await kafka.snapshot();
  await kafka.produce("orders", "cake");
  await kafka.restore(snapshot);
  expect((await kafka.records("orders")).map((each) => each.value)).toEqual(["tea"]);
});

test("logs are cleaned", async () => {
  await kafka.topic("prices", { configs: { "cleanup.policy": "compact" } });
  await kafka.produce("prices", { key: "tea", value: "1" }, { key: "tea", value: "2" });
  await kafka.compact({ topic: "prices" });
  await kafka.applyRetention();
  expect((await kafka.records("prices")).map((each) => each.value)).toEqual(["2"]);
});

test("what this cluster does not have is refused", async () => {
  await expect(kafka.addAcls("allow User:alice READ topic orders")).rejects.toMatchObject({ name: "KafkaRefused" });
  await expect(kafka.removeAcls("allow User:alice READ topic orders")).rejects.toMatchObject({ name: "KafkaRefused" });
  await expect(kafka.expireTransaction("payer")).rejects.toMatchObject({ name: "KafkaRefused" });
  await expect(kafka.moveTransactionCoordinator("payer", { to: 2 })).rejects.toMatchObject({ name: "KafkaRefused" });
  expect(await kafka.shareGroup("mailers").members()).toEqual([]);
  expect(await kafka.shareGroup("mailers").expireLocks()).toBe(0);
  expect(() => kafka.clientConfig("kafka.js")).toThrow("there is no client library kafka.js; there is kafkajs, confluent");
});
