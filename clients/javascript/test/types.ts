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
  const values: (string | null)[] = (await kafka.records("orders")).map((each) => each.value);
  await (await startKafka({ brokers: 1 })).close();
  await kafka.produce("orders", "paid", { value: values });
}
