"""What requests cost that name the same thing often, many things, or all there are: of every API, from its declaration.

The bounds are those of the design: 25 ms of CPU while the event loop is held, and 64 MB or 8 times the request. A
request counts with the least of some tries; see `holding` for slower machines. The worst request of a run is noted.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from tests.broker.server.holding import MAX_HOLD_MS, MAX_MEMORY_TIMES, Cost, Target, assert_within_bound
from tests.broker.server.hostile import HostileRequest
from tests.broker.server.named import World, requests_that_name

MAX_MEMORY_BYTES: Final = 64 * 1024 * 1024
TRIES: Final = 4
DESTROYS: Final = frozenset(
    {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_GROUPS, ApiKey.DELETE_ACLS}
)
"""The APIs whose requests find nothing to do when they are sent again: each gets a broker of its own."""
AMPLIFIES: Final = (
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_TRANSACTIONS,
)
"""The APIs of which a request of 12 kB held the loop for seconds, and took gigabytes."""

BROKER: Final = {
    "auto_create_topics_enable": False,
    "authorizer_class_name": "StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


@asynccontextmanager
async def full_broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Target]:
    """A broker that has much of everything; without a collector, as brokers freeze what they have (`GarbageTuning`)."""
    async with Cluster(ClusterConfig(brokers=1, port=0, admin_port=0, broker=BROKER)) as cluster:
        target = Target(cluster)
        await World(target, cluster.brokers[0]).fill()
        gc.disable()
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.Handle, "_run", target.timed)
            try:
                yield target
            finally:
                gc.enable()


async def least_hold(target: Target, request: HostileRequest) -> Cost:
    """Return what a request costs that can be sent again."""
    holds_ms = []
    for _ in range(TRIES):
        hold_ms, _ = await target.answer(request.frame)
        holds_ms.append(hold_ms)
        if hold_ms <= MAX_HOLD_MS * 0.8:
            break
    return Cost(min(holds_ms), request.title)


async def least_hold_of_new(monkeypatch: pytest.MonkeyPatch, request: HostileRequest) -> Cost:
    """Return what a request costs, each time on another broker."""
    holds_ms = []
    for _ in range(TRIES):
        async with full_broker(monkeypatch) as target:
            hold_ms, _ = await target.answer(request.frame)
        holds_ms.append(hold_ms)
        if hold_ms <= MAX_HOLD_MS * 0.8:
            break
    return Cost(min(holds_ms), request.title)


async def worst_of(monkeypatch: pytest.MonkeyPatch, keys: list[ApiKey]) -> Cost:
    worst = Cost(0.0, "nothing")
    again = [key for key in keys if key not in DESTROYS]
    if again:
        async with full_broker(monkeypatch) as target:
            for key in again:
                for request in requests_that_name(key):
                    worst = max(worst, await least_hold(target, request))
    for key in set(keys) - set(again):
        for request in requests_that_name(key):
            worst = max(worst, await least_hold_of_new(monkeypatch, request))
    return worst


@pytest.mark.no_cover  # the time that is measured would be that of the measuring
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_name_that_is_repeated_does_not_hold_the_loop(
    monkeypatch: pytest.MonkeyPatch, record_property: pytest.RecordProperty
) -> None:
    cost = await worst_of(monkeypatch, list(AMPLIFIES))
    record_property("note", f"repeated names: the longest hold of the loop was {cost.hold_ms:.0f} ms, {cost.title}")
    assert_within_bound(cost)


@pytest.mark.no_cover
@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: ApiKey(key).name)
async def test_no_request_that_names_much_holds_the_loop(
    monkeypatch: pytest.MonkeyPatch, record_property: pytest.RecordProperty, key: int
) -> None:
    cost = await worst_of(monkeypatch, [ApiKey(key)])
    record_property("note", f"{ApiKey(key).name}: the longest hold of the loop was {cost.hold_ms:.0f} ms, {cost.title}")
    assert_within_bound(cost)


async def assert_little_memory(target: Target, request: HostileRequest) -> None:
    await target.answer(request.frame)  # what is kept for good: compiled codecs, metrics
    tracemalloc.start()
    try:
        await target.answer(request.frame)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < max(MAX_MEMORY_TIMES * len(request.frame), MAX_MEMORY_BYTES), request.title


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_name_that_is_repeated_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async with full_broker(monkeypatch) as target:
        for request in requests_that_name(ApiKey.CONSUMER_GROUP_DESCRIBE, newest_only=True):
            await assert_little_memory(target, request)


@pytest.mark.no_cover
@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: ApiKey(key).name)
async def test_no_request_that_names_much_takes_much_memory(monkeypatch: pytest.MonkeyPatch, key: int) -> None:
    async with full_broker(monkeypatch) as target:
        for request in requests_that_name(ApiKey(key)):
            await assert_little_memory(target, request)


def test_each_api_has_requests_that_name_things() -> None:
    """A new text or code in a request needs an entry in `named`; without one this fails with its name."""
    for key in APIS:
        assert list(requests_that_name(ApiKey(key), count=2))
