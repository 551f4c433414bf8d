// A member with kafkajs: `BOOTSTRAP TOPIC GROUP SESSION_MS`; see `harness.py`.
const { writeSync } = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, topic, groupId, sessionMs] = process.argv.slice(2);

function say(...words) {
  writeSync(1, [process.env.MEMBER, ...words].join(" ") + "\n");
}

async function main() {
  const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: Number(sessionMs),
    heartbeatInterval: Number(sessionMs) / 5,
    // It beats between two fetches only.
    maxWaitTimeInMs: Number(sessionMs) / 5,
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say("owns", (payload.memberAssignment[topic] || []).join(",")));
  consumer.on(consumer.events.REBALANCING, () => say("owns", ""));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
    for (const { partition, offset } of payload.topics.flatMap(({ partitions }) => partitions)) {
      say("committed", partition, offset);
    }
  });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) => say("record", partition, message.offset, message.key, message.value),
  });
  process.stdin.resume();
  process.stdin.on("end", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
