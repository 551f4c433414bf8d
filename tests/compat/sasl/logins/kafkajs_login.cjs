// Logs in by SASL and produces for some seconds: BOOTSTRAP MECHANISM USER PASSWORD CA SECONDS.
const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, mechanism, username, password, ca, seconds] = process.argv.slice(2);
const sasl =
  mechanism === "OAUTHBEARER"
    ? { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: password }) }
    : { mechanism: mechanism.toLowerCase(), username, password };
const kafka = new Kafka({
  brokers: bootstrap.split(","),
  ssl: { ca: [fs.readFileSync(ca, "utf-8")] },
  sasl,
  logLevel: logLevel.NOTHING,
  retry: { retries: 0 },
  reauthenticationThreshold: 1500,
});

async function main() {
  const producer = kafka.producer({ retry: { retries: 3 } });
  await producer.connect();
  const end = Date.now() + seconds * 1000;
  let sent = 0;
  do {
    await producer.send({ topic: "orders", acks: -1, messages: [{ value: "x" }] });
    sent += 1;
    await new Promise((resolve) => setTimeout(resolve, 100));
  } while (Date.now() < end);
  await producer.disconnect();
  console.log(`sent ${sent}`);
}

main().catch((error) => {
  console.log(`refused ${error.name}: ${error.message}`);
  process.exit(0);
});
