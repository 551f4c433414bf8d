"""The admin HTTP of a program that has not imported the web framework: a socket stands for it until a client comes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("unmeasured")]

START = """
import asyncio, json, sys, urllib.request
from urllib.request import Request
from purgatorio import Cluster, ClusterConfig

JSON = {"Content-Type": "application/json"}
LARGE = ("pydantic", "cramjam", "purgatorio.admin.learn")

def ask(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.status

async def main():
    seen = {}
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as cluster:
        seen["at the start"] = "starlette" in sys.modules
        if ASKS:
            paths = ("/healthz", "/metrics", "/", "/api/v1/state", "/api/v1/why")
            waits = [asyncio.to_thread(ask, cluster.admin_url + path) for path in paths]
            seen["answers"] = await asyncio.gather(*waits)
            seen["large"] = [name for name in LARGE if name in sys.modules]
            change = Request(cluster.admin_url + "/api/v1/topics", b'{"name": "orders"}', JSON)
            seen["change"] = await asyncio.to_thread(ask, change)
        host, port = cluster.admin.address
    seen["tasks"] = len(asyncio.all_tasks()) - 1
    try:
        await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        seen["refused"] = True
    print(json.dumps(seen))

asyncio.run(main())
"""


def seen(*, asks: bool) -> object:
    script = START.replace("ASKS", str(asks))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_first_clients_are_answered() -> None:
    """Those that only read load none of what takes most memory: pydantic is there for a change."""
    told = {"at the start": False, "answers": [200] * 5, "large": [], "change": 200}
    assert seen(asks=True) == {**told, "tasks": 0, "refused": True}


def test_a_cluster_that_nobody_asks_stops_without_it() -> None:
    assert seen(asks=False) == {"at the start": False, "tasks": 0, "refused": True}
