"""A produce request with acks=all that waits for a follower: hold the follower, look at the wait, let the follower go.

All of it goes over the admin HTTP, so it works as well with a cluster in another process (`purgatorio cluster`).
It needs a client: ``pip install aiokafka``. Run it: ``python examples/held_follower.py``
"""

import asyncio
import json
import urllib.request
from typing import Any

from aiokafka import AIOKafkaProducer

from purgatorio import Cluster, ClusterConfig


class Admin:
    """The admin HTTP of a cluster; `url` is where its page is."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def get(self, path: str) -> Any:
        """Read a JSON document."""
        return await asyncio.to_thread(self._send, urllib.request.Request(self._url + path))

    async def post(self, path: str, **body: object) -> Any:
        """Change something."""
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self._url + path, json.dumps(body).encode(), headers)
        return await asyncio.to_thread(self._send, request)

    @staticmethod
    def _send(request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)


async def parked_produce_request(admin: Admin) -> str:
    """Wait until a produce request is parked at some broker, and return the condition that it still misses."""
    while True:
        for broker in (await admin.get("/api/v1/state"))["brokers"]:
            for purgatory in broker["purgatories"]:
                if purgatory["name"] == "Produce" and purgatory["operations"]:
                    return str(purgatory["operations"][0]["missing"])


async def main() -> None:
    """Show that acks=all waits for a held follower, and is answered when the follower fetches again."""
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as cluster:
        admin = Admin(cluster.admin_url)
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            first = await producer.send_and_wait("orders", b"the followers are free")
            print(f"offset {first.offset} is acknowledged")

            leader = (await admin.get("/api/v1/topics?topic=orders"))["partitions"][0]["leader"]
            follower = 1 if leader != 1 else 2
            await admin.post(f"/api/v1/brokers/{follower}/follower", held=True)

            waiting = await producer.send("orders", b"one follower is held")
            missing = await parked_produce_request(admin)
            print(f"acknowledged: {waiting.done()}; it waits for: {missing}")

            await admin.post(f"/api/v1/brokers/{follower}/follower", held=False)
            second = await waiting
            print(f"offset {second.offset} is acknowledged")


if __name__ == "__main__":
    asyncio.run(main())
