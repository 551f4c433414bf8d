"""After minutes of clients, topics and brokers that come and go, a cluster holds what it held before."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.server.connection import Connection
from purgatorio.broker.server.listener import Listener
from tests.logs import silenced
from tests.soak.census import Census, take_census
from tests.soak.churn import LOOKED_AT, Churn, scrape

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "300"))
WARM_UP_SHARE = 0.2
"""The share of the time after which caches are full, codecs compiled, and the allocator has its arenas."""
MAX_RSS_GROWTH_BYTES = 10 * 1024 * 1024
QUIET_SECONDS = 5.0
"""Followers notice deleted topics, fenced brokers' connections end, and timers of answered requests run out."""
MORE_LOOKS = 12
"""A minute in which what is still there may go: some timers run as long."""

pytestmark = [
    pytest.mark.clients,
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    config = ClusterConfig(
        port=0,
        admin_port=0,
        racks="a,b,c",
        broker={"min_insync_replicas": 2, "log_retention_check_interval_ms": 1_000, "replica_fetch_wait_max_ms": 200},
    )
    asyncio.get_running_loop().set_exception_handler(_without_leftover_clients)
    # pytest keeps all lines of a test, so there must be few; aiokafka logs an error when a broker dies.
    with silenced(purgatorio=logging.ERROR, aiokafka=logging.CRITICAL):
        async with Cluster(config) as running:
            yield running


def _without_leftover_clients(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what the loop reports, but for connections that aiokafka left when it could not start or stop."""
    if not str(context.get("message")).startswith("Unclosed AIOKafka"):
        loop.default_exception_handler(context)


async def churn_and_count(cluster: Cluster, seconds: float, seed: int) -> tuple[Churn, Census]:
    """Let clients, topics and brokers come and go, and count what is left of them."""
    churn = Churn(cluster, seed)
    await churn.run(seconds)
    await asyncio.sleep(QUIET_SECONDS)
    for path in LOOKED_AT:
        await scrape(cluster, path)
    return churn, take_census()


@pytest.mark.timeout(SOAK_SECONDS + 300)
async def test_a_cluster_returns_to_its_baseline(cluster: Cluster, record_property: pytest.RecordProperty) -> None:
    _, before = await churn_and_count(cluster, SOAK_SECONDS * WARM_UP_SHARE, seed=1)
    churn, after = await churn_and_count(cluster, SOAK_SECONDS * (1 - WARM_UP_SHARE), seed=2)
    for _ in range(MORE_LOOKS):
        if not after.growth(before):
            break
        await asyncio.sleep(QUIET_SECONDS)
        after = take_census()
    rss_growth_bytes = after.rss_bytes - before.rss_bytes
    done = f"done {dict(churn.done)}, failed {dict(churn.failed)}"
    record_property("note", f"soak of {SOAK_SECONDS:.0f} s: {done}; RSS {rss_growth_bytes / 2**20:+.1f} MiB")
    assert min(churn.done.values()) > 0
    growth = after.growth(before)
    assert not growth, growth
    assert rss_growth_bytes < MAX_RSS_GROWTH_BYTES


async def test_a_leak_is_found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leaked: list[Connection] = []
    left = Listener.left

    def leaking(listener: Listener, connection: Connection) -> None:
        leaked.append(connection)
        left(listener, connection)

    monkeypatch.setattr(Listener, "left", leaking)
    _, before = await churn_and_count(cluster, 1.0, seed=1)
    _, after = await churn_and_count(cluster, 1.0, seed=2)
    assert "purgatorio.broker.server.connection.Connection" in after.growth(before)
