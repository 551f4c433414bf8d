// kafkajs changes the configs of a broker, one after the other, and prints the names that the broker describes at the end.
const { Kafka, logLevel } = require('kafkajs')

const BROKER = 4
const NAMES = ['cleanup.policy', 'log.cleanup.policy', 'my.own.setting']

async function main() {
  const admin = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  const name = String((await admin.describeCluster()).brokers[0].nodeId)
  for (const each of NAMES) {
    const configEntries = [{ name: each, value: 'delete' }]
    await admin.alterConfigs({ resources: [{ type: BROKER, name, configEntries }] })
  }
  const described = await admin.describeConfigs({ resources: [{ type: BROKER, name, configNames: NAMES }] })
  const told = described.resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue])
  console.log(JSON.stringify(Object.fromEntries(told)))
  await admin.disconnect()
}

main()
