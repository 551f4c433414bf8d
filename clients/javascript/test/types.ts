// Uses of the kit for the TypeScript compiler to check.
import { type Kafka, startKafka } from "purgatorio";
import { useKafka } from "purgatorio/vitest";

export async function uses(): Promise<void> {
  const kafka: Kafka = useKafka({ topics: { orders: 1 } });
  await kafka.operations.moveLeader({ topic: "orders", to: 2 });
  await kafka.operations.partitionNetwork({ groups: [[1], [2, 3]] });
  // @ts-expect-error the topic is missing
  await kafka.operations.moveLeader({ to: 2 });
  // @ts-expect-error there is no such operation
  await kafka.operations.moveLeaders({ topic: "orders" });
  const leader: number = await kafka.moveLeader("orders", { to: 2 });
  await kafka.holdFollower(leader);
  await kafka.release();
  const missing: string[] = (await kafka.untilParked({ api: "Produce", timeoutMs: 500 })).map((each) => each.missing);
  const members: number | undefined = (await kafka.group("billing"))?.members.length;
  await (await kafka.fault({ api: "Fetch", delay_ms: members ?? 1 })).untilFired({ times: missing.length });
  await kafka.clock.advance(30, { sessions: true });
  await kafka.partition([1], [2, 3]);
  const text: string = await kafka.explain("billing");
  // @ts-expect-error the broker is missing
  await kafka.kill();
  // @ts-expect-error there is no such option
  await kafka.moveLeader(text, { too: 1 });
  const values: (string | null)[] = (await kafka.records("orders")).map((each) => each.value);
  await (await startKafka({ brokers: 1 })).close();
  await kafka.produce("orders", "paid", { value: values });
}
