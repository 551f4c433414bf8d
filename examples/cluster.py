"""A cluster of three brokers in asyncio code, and a Kafka client that writes to it and reads from it.

It needs a client: ``pip install aiokafka``. Run it: ``python examples/cluster.py``
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from purgatorio import Cluster, ClusterConfig


async def main() -> None:
    """Produce three records with acks=all, and consume them."""
    # Port 0 takes free ports, so that several clusters can run at once.
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as cluster:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            for fruit in (b"apple", b"pear", b"plum"):
                await producer.send_and_wait("fruit", fruit)

        async with AIOKafkaConsumer(
            "fruit", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", group_id=None
        ) as consumer:
            for _ in range(3):
                record = await consumer.getone()
                print(f"offset {record.offset}: {record.value.decode()}")


if __name__ == "__main__":
    asyncio.run(main())
