"""The admin HTTP of a program that has not imported the web framework: a socket stands for it until a client comes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("unmeasured")]

START = """
import asyncio, json, sys, urllib.request
from purgatorio import Cluster, ClusterConfig

def ask(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.status

async def main():
    seen = {}
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as cluster:
        seen["at the start"] = "starlette" in sys.modules
        if ASKS:
            waits = [asyncio.to_thread(ask, cluster.admin_url + path) for path in ("/healthz", "/metrics", "/")]
            seen["answers"] = await asyncio.gather(*waits)
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
    assert seen(asks=True) == {"at the start": False, "answers": [200, 200, 200], "tasks": 0, "refused": True}


def test_a_cluster_that_nobody_asks_stops_without_it() -> None:
    assert seen(asks=False) == {"at the start": False, "tasks": 0, "refused": True}
