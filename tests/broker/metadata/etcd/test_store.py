"""What every metadata store promises, on an etcd in memory and on a real one; and what may happen to etcd."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.metadata.controller import TopicSettings, fence_broker, register_broker
from purgatorio.broker.metadata.etcd import store as store_module
from purgatorio.broker.metadata.etcd.address import EtcdAddress
from purgatorio.broker.metadata.etcd.gateway import EtcdGateway
from purgatorio.broker.metadata.etcd.requests import Etcd, EtcdRefused, encoded, put
from purgatorio.broker.metadata.etcd.store import (
    BEHIND_LIMIT_MS,
    CHECK_INTERVAL_MS,
    ClusterMembership,
    EtcdStore,
    StoreUnusable,
)
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.served import ServedView
from purgatorio.broker.metadata.store import Decision, LeaseLost, StoreClosed, StoreError, decide
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.purgatory.clock import Clock, ManualClock
from tests.broker.metadata.etcd.fake_etcd import FakeEtcd, FakeGateway
from tests.endpoints import plaintext

T = TypeVar("T")

SETTINGS = TopicSettings()
PREFIX = "tests"
PROOF = "of the secret"
LEASE_MS = 2_000


@dataclass
class World:
    """An etcd with the brokers' stores on it."""

    clock: Clock
    pass_ms: Callable[[int], Any]
    gateway: Callable[[], Etcd]
    stores: list[EtcdStore] = field(default_factory=list)
    running: list[asyncio.Task[None]] = field(default_factory=list)

    async def begin(self, proof: str = PROOF, gateway: Etcd | None = None, cluster_id: str = "") -> EtcdStore:
        """Return the store of one more broker, with the first image."""
        number = len(self.stores) + 1
        loop = asyncio.get_running_loop()
        store = EtcdStore(gateway or self.gateway(), PREFIX, number, clock=self.clock, call_soon=loop.call_soon)
        self.stores.append(store)
        first = ClusterImage(version=0, cluster_id=cluster_id or f"cluster-{number}")
        await store.begin(first, ClusterMembership.of(proof))
        return store

    async def open(self, gateway: Etcd | None = None) -> ServedView:
        """Return the view of one more broker, which runs."""
        store = await self.begin(gateway=gateway)
        self.running.append(asyncio.create_task(store.run()))
        await asyncio.sleep(0)
        return store.open()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so, for a few seconds of the clock."""
        for _ in range(200):
            if condition():
                return
            await self.pass_ms(50)
        raise AssertionError("it has not happened")

    async def end(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


@contextlib.asynccontextmanager
async def in_memory() -> AsyncIterator[tuple[World, FakeEtcd]]:
    clock = ManualClock()
    etcd = FakeEtcd(clock)

    async def pass_ms(ms: int) -> None:
        await clock.run_for(ms)
        etcd.expire()
        await clock.run_for(0)

    world = World(clock, pass_ms, lambda: FakeGateway(etcd))
    try:
        yield world, etcd
    finally:
        await world.end()


@contextlib.asynccontextmanager
async def a_real_one(path: Path, *flags: str) -> AsyncIterator[World]:
    command = ["etcd", "--data-dir", str(path), "--log-level", "error", "--unsafe-no-fsync"]
    port = free_port()
    urls = [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"]
    command += ["--listen-client-urls", urls[0], "--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1]]
    command += ["--initial-advertise-peer-urls", urls[1], "--initial-cluster", f"default={urls[1]}"]
    process = await asyncio.create_subprocess_exec(*command, *flags, stderr=asyncio.subprocess.DEVNULL)
    gateways: list[EtcdGateway] = []

    def gateway() -> EtcdGateway:
        gateways.append(EtcdGateway(EtcdAddress.parse(f"etcd://127.0.0.1:{port}/{PREFIX}")))
        return gateways[-1]

    world = World(SystemClock(), lambda ms: asyncio.sleep(ms / 1000), gateway)
    try:
        yield world
    finally:
        await world.end()
        for each in gateways:
            await each.close()
        process.kill()
        await process.wait()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


NEEDS_ETCD = (
    pytest.mark.process,
    pytest.mark.ci,
    pytest.mark.skipif(shutil.which("etcd") is None, reason="there is no etcd on this machine"),
)
REAL = pytest.param("real", marks=NEEDS_ETCD)


def needs_etcd(test: T) -> T:
    """Leave a test to CI, and to machines that have an etcd."""
    for mark in NEEDS_ETCD:
        test = mark(test)
    return test


@pytest.fixture(params=["in memory", REAL])
async def world(request: Any, tmp_path: Path) -> AsyncIterator[World]:
    if request.param == "real":
        async with a_real_one(tmp_path) as world:
            yield world
    else:
        async with in_memory() as (world, _):
            yield world


@pytest.fixture
async def faulty() -> AsyncIterator[tuple[World, FakeEtcd]]:
    async with in_memory() as both:
        yield both


async def done(world: World, view: ServedView, decision: Decision[Any], lease_id: int = -1) -> Any:
    """Make a decision, while time passes."""
    task = asyncio.create_task(decide(view, decision, **({} if lease_id < 0 else {"lease_id": lease_id})))
    with contextlib.suppress(Exception):
        await world.until(task.done)
    return task.result()


def noting(group: str, text: str) -> Decision[str]:
    """Return the decision that adds text to a config of a group, and returns what was there."""

    def decision(image: ClusterImage) -> tuple[ClusterImage, str]:
        known = dict(image.group_configs.get(group, {})).get("notes", "")
        return image.with_group_configs(group, {"notes": known + text}), known

    return decision


def notes(view: ServedView, group: str = "g") -> str:
    return dict(view.image.group_configs.get(group, {})).get("notes", "")


async def lease_of(world: World, view: ServedView, ttl_ms: int = LEASE_MS) -> int:
    granted: list[int] = []
    view.grant_lease(ttl_ms, granted.append)
    await world.until(lambda: granted)
    return granted[0]


async def keeps(world: World, view: ServedView, lease_id: int) -> bool:
    kept: list[bool] = []
    view.keep_lease(lease_id, kept.append)
    await world.until(lambda: kept)
    return kept[0]


async def register(world: World, view: ServedView, broker_id: int, lease_id: int) -> None:
    endpoints = plaintext("h", broker_id)
    await done(
        world,
        view,
        lambda image: register_broker(image, broker_id, endpoints, lease_id=lease_id, settings=SETTINGS),
        lease_id,
    )


# --- laws ---


async def test_the_first_broker_makes_the_cluster_and_the_others_find_it(world: World) -> None:
    views = [await world.open() for _ in range(3)]
    assert [view.image.cluster_id for view in views] == ["cluster-1"] * 3


async def test_a_broker_sees_its_own_change_when_it_is_done_and_the_others_later(world: World) -> None:
    first, second = await world.open(), await world.open()
    assert await done(world, first, noting("g", "a")) == ""
    assert notes(first) == "a"
    await world.until(lambda: notes(second) == "a")
    assert first.image == second.image


async def test_no_decision_is_lost_or_made_twice_when_brokers_compete(world: World) -> None:
    views = [await world.open() for _ in range(3)]
    texts = [f"<{number}-{step}>" for number in range(3) for step in range(5)]
    tasks = [asyncio.create_task(decide(views[int(text[1])], noting("g", text))) for text in texts]
    await world.until(lambda: all(task.done() for task in tasks))
    before = [task.result() for task in tasks]
    assert len(set(before)) == len(texts), "each was made on the one before"
    assert sorted(notes(views[0]).replace("><", "> <").split()) == sorted(texts)
    await world.until(lambda: len({notes(view) for view in views}) == 1)


async def test_a_decision_that_changes_nothing_is_made_on_the_committed_image(world: World) -> None:
    first, second = await world.open(), await world.open()
    await done(world, first, noting("g", "a"))
    assert await done(world, second, lambda image: (image, dict(image.group_configs["g"]))) == {"notes": "a"}


async def test_a_decision_that_writes_a_thousand_keys_is_one(world: World) -> None:
    first, second = await world.open(), await world.open()

    def decision(image: ClusterImage) -> tuple[ClusterImage, None]:
        for number in range(1_000):
            image = image.with_group_configs(f"g{number}", {"notes": "x"})
        return image, None

    await done(world, first, decision)
    seen: list[int] = []
    second.watch(lambda image: seen.append(len(image.group_configs)))
    await world.until(lambda: len(second.image.group_configs) == 1_000)
    assert seen in ([], [1_000]), "all of it, or nothing"


async def test_a_lease_that_is_not_kept_ends_and_is_never_valid_again(world: World) -> None:
    view = await world.open()
    lease_id = await lease_of(world, view)
    assert await keeps(world, view, lease_id)
    await done(world, view, noting("g", "a"), lease_id)
    await world.pass_ms(2 * LEASE_MS)
    assert not await keeps(world, view, lease_id)
    with pytest.raises(LeaseLost):
        await done(world, view, noting("g", "b"), lease_id)
    assert notes(view) == "a"
    assert await keeps(world, view, await lease_of(world, view))


async def test_the_others_hear_of_a_live_brokers_lost_lease_until_it_is_fenced(world: World) -> None:
    first, second = await world.open(), await world.open()
    lease_id = await lease_of(world, first)
    await register(world, first, 1, lease_id)
    await world.until(lambda: 1 in second.image.live_brokers)
    lost: list[int] = []
    second.watch_lost_leases(lost.append)
    await world.until(lambda: lost)
    assert set(lost) == {lease_id}
    await done(world, second, lambda image: fence_broker(image, lease_id, settings=SETTINGS))
    await world.pass_ms(2 * CHECK_INTERVAL_MS)
    lost.clear()
    await world.pass_ms(2 * CHECK_INTERVAL_MS)
    assert not lost


async def test_a_broker_with_another_secret_is_refused(world: World) -> None:
    await world.begin()
    with pytest.raises(StoreUnusable, match=r"has another secret: give this broker the cluster\.secret\.file"):
        await world.begin(proof="of another")


async def test_brokers_find_each_others_pages_as_long_as_they_hold_leases(world: World) -> None:
    first, second = await world.open(), await world.open()
    await register(world, first, 1, await lease_of(world, first))
    world.stores[0].announce("http://10.0.0.1:9645")
    pages = world.stores[1].pages
    await world.until(lambda: world.stores[1].pages == {1: "http://10.0.0.1:9645"})
    await world.until(lambda: not world.stores[1].pages)
    assert second.image.brokers, pages


async def test_where_a_dead_brokers_page_was_is_known_even_to_brokers_that_came_later(world: World) -> None:
    """The key went with the lease, and monitoring forgot the broker that it should report."""
    view = await world.open()
    await register(world, view, 1, await lease_of(world, view))
    world.stores[0].announce("http://10.0.0.1:9645")
    await world.until(lambda: world.stores[0].pages)
    await world.until(lambda: not world.stores[0].pages)
    await world.open()
    for store in world.stores:
        assert store.last_pages == {1: "http://10.0.0.1:9645"}
        assert not store.pages


async def test_a_closed_view_fails_what_is_pending(world: World) -> None:
    view = await world.open()
    task = asyncio.create_task(decide(view, noting("g", "a")))
    await asyncio.sleep(0)
    view.close()
    with pytest.raises(StoreClosed):
        await task


# --- what may happen to etcd, and on the way to it ---


@given(
    cuts=st.lists(st.sampled_from(["", "before", "after"]), max_size=30),
    turns=st.lists(st.sampled_from([0, 1]), min_size=1, max_size=6),
)
def test_each_decision_is_made_once_whatever_is_lost_on_the_way(cuts: list[str], turns: list[int]) -> None:
    async def run() -> None:
        async with in_memory() as (world, etcd):
            views = [await world.open(), await world.open()]
            etcd.cuts = deque(cuts)
            tasks = [
                asyncio.create_task(decide(views[turn], noting("g", f"<{number}>")))
                for number, turn in enumerate(turns)
            ]
            await world.until(lambda: all(task.done() for task in tasks))
            etcd.cuts.clear()
            await world.until(lambda: notes(views[0]) == notes(views[1]))
            assert len({task.result() for task in tasks}) == len(turns)
            found = notes(views[0])
            assert sorted(found.replace("><", "> <").split()) == sorted(f"<{number}>" for number in range(len(turns)))

    asyncio.run(run())


async def test_a_watch_that_breaks_is_begun_anew_without_a_gap(faulty: tuple[World, FakeEtcd]) -> None:
    world, etcd = faulty
    first, second = await world.open(), await world.open()
    etcd.break_watches()
    await done(world, first, noting("g", "a"))
    await world.until(lambda: notes(second) == "a")
    assert second.image == first.image


async def test_what_was_compacted_away_is_read_anew(faulty: tuple[World, FakeEtcd]) -> None:
    world, etcd = faulty
    deaf = FakeGateway(etcd)
    first, second = await world.open(), await world.open(deaf)
    await done(world, first, noting("g", "a"))
    await world.until(lambda: notes(second) == "a")
    deaf.is_cut = True
    etcd.break_watches()
    await done(
        world, first, lambda image: (image.with_group_configs("g", {}).with_group_configs("h", {"x": "1"}), None)
    )
    etcd.compact()
    deaf.is_cut = False
    await world.until(lambda: "h" in second.image.group_configs)
    assert second.image == first.image


async def test_a_compaction_between_the_pages_of_a_read_begins_the_read_anew(
    faulty: tuple[World, FakeEtcd], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, etcd = faulty
    monkeypatch.setattr(store_module, "PAGE_KEYS", 2)
    first = await world.open()
    for group in "abcde":
        await done(world, first, noting(group, "x"))
    gateway = FakeGateway(etcd)
    gateway.then["kv/range"] = etcd.compact_and_go_on
    second = await world.open(gateway)
    assert second.image == first.image
    assert gateway.calls.count("kv/range") > 5


async def test_a_watch_that_brings_nothing_is_noticed(faulty: tuple[World, FakeEtcd]) -> None:
    world, etcd = faulty
    deaf = FakeGateway(etcd)
    first, second = await world.open(), await world.open(deaf)
    deaf.is_deaf = True
    await done(world, first, noting("g", "a"))
    await world.pass_ms(CHECK_INTERVAL_MS + BEHIND_LIMIT_MS + 200)
    assert notes(second) == "a"


async def test_while_etcd_is_away_nothing_is_answered_and_then_all(faulty: tuple[World, FakeEtcd]) -> None:
    world, etcd = faulty
    gateway = FakeGateway(etcd)
    view = await world.open(gateway)
    lease_id = await lease_of(world, view)
    gateway.is_cut = True
    etcd.break_watches()
    task = asyncio.create_task(decide(view, noting("g", "a")))
    kept: list[bool] = []
    view.keep_lease(lease_id, kept.append)
    await world.pass_ms(1_000)
    assert not task.done()
    assert not kept
    gateway.is_cut = False
    await world.until(task.done)
    assert notes(view) == "a"
    assert await keeps(world, view, lease_id)


async def test_a_full_etcd_refuses_a_decision_and_those_behind_it_go_on(faulty: tuple[World, FakeEtcd]) -> None:
    world, etcd = faulty
    view = await world.open()
    etcd.refuses = EtcdRefused("etcdserver: mvcc: database space exceeded", 8)
    with pytest.raises(StoreError, match="etcd refuses: etcdserver: mvcc: database space exceeded"):
        await done(world, view, noting("g", "a"))
    etcd.refuses = None
    await done(world, view, noting("g", "b"))
    assert notes(view) == "b"


@needs_etcd
async def test_a_real_etcd_whose_disk_quota_is_used_up_refuses_and_still_keeps_leases(tmp_path: Path) -> None:
    async with a_real_one(tmp_path, "--quota-backend-bytes", "2000000") as world:
        first, second = await world.open(), await world.open()
        lease_id = await lease_of(world, first)

        async def fill() -> None:
            for number in range(100):
                await done(world, first, noting(f"g{number}", "x" * 100_000))

        with pytest.raises(StoreError, match="etcd refuses: etcdserver: mvcc: database space exceeded"):
            await fill()
        assert await keeps(world, first, lease_id)
        await world.until(lambda: second.image == first.image)
        with pytest.raises(StoreError, match="database space exceeded"):
            await done(world, second, noting("g", "x"))


@needs_etcd
async def test_a_real_etcd_may_be_compacted_under_a_watch(tmp_path: Path) -> None:
    async with a_real_one(tmp_path) as world:
        first, second = await world.open(), await world.open()
        for number in range(20):
            await done(world, first, noting("g", f"<{number}>"))
        gateway = world.gateway()
        revision = (await gateway.call("kv/range", {"key": encoded("x")}))["header"]["revision"]
        await gateway.call("kv/compaction", {"revision": revision, "physical": True})
        third = await world.open()
        await done(world, second, noting("g", "<end>"))
        await world.until(lambda: notes(first) == notes(second) == notes(third))
        assert notes(third).endswith("<19><end>")


async def test_an_etcd_that_nobody_answers_for_is_told_in_a_sentence(faulty: tuple[World, FakeEtcd]) -> None:
    world, etcd = faulty
    gateway = FakeGateway(etcd)
    gateway.is_cut = True
    task = asyncio.create_task(world.begin(gateway=gateway))
    await world.pass_ms(11_000)
    with pytest.raises(StoreUnusable, match=r"no etcd answers: cut; does it run, and is `store` its address\?"):
        await task


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        ("etcdserver: user name is empty", 3, "it asks for a user and a password: etcd://USER:PASSWORD@HOST:PORT"),
        ("etcdserver: permission denied", 7, "etcd refuses: etcdserver: permission denied"),
    ],
)
async def test_an_etcd_that_refuses_is_told_in_a_sentence(
    faulty: tuple[World, FakeEtcd], message: str, code: int, said: str
) -> None:
    world, etcd = faulty
    etcd.refuses = EtcdRefused(message, code)
    with pytest.raises(StoreUnusable, match=said):
        await world.begin()


async def test_a_newer_format_is_refused_at_the_start_and_while_it_runs(faulty: tuple[World, FakeEtcd]) -> None:
    world, etcd = faulty
    await world.open()
    head = json.loads(etcd.entries[f"{PREFIX}/image/cluster"].value)
    newer = put(f"{PREFIX}/image/cluster", json.dumps({**head, "format": 99, "version": 9}))
    etcd.answer("kv/put", newer["request_put"])
    await world.pass_ms(10)
    with pytest.raises(StoreUnusable, match="format 99; this version knows formats up to"):
        await world.running[0]
    with pytest.raises(StoreUnusable, match="cannot be used: the keys have format 99"):
        await world.begin()


async def test_a_cluster_whose_keys_were_deleted_ends(faulty: tuple[World, FakeEtcd]) -> None:
    world, etcd = faulty
    await world.open()
    etcd.commit([{"request_delete_range": {"key": encoded(f"{PREFIX}/image/cluster")}}])
    await world.pass_ms(10)
    with pytest.raises(StoreUnusable, match="is gone: its keys were deleted"):
        await world.running[0]


BY_SECRET = ClusterMembership("SASL_PLAINTEXT", "5ec4e7")


@pytest.mark.parametrize(
    ("membership", "text"),
    [
        (BY_SECRET, "5ec4e7"),
        (ClusterMembership("SSL", ""), "SSL "),
        (ClusterMembership("SASL_SSL", "5ec4e7"), "SASL_SSL 5ec4e7"),
    ],
)
def test_the_text_of_a_membership_stands_for_it(membership: ClusterMembership, text: str) -> None:
    """That of a secret alone is what the first version wrote."""
    assert str(membership) == text
    assert ClusterMembership.of(text) == membership
    assert membership.refusal(membership, "purgatorio/") == ""


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (
            ClusterMembership("SSL", ""),
            "protocol=SSL, and this one has SASL_PLAINTEXT: set it to the same",
        ),
        (ClusterMembership("SASL_SSL", "5ec4e7"), "=SASL_SSL, and this one has SASL_PLAINTEXT"),
        (ClusterMembership("SASL_PLAINTEXT", "07he4"), r"another secret: give this broker the cluster\.secret\.file"),
        (None, "another secret"),
    ],
)
def test_a_broker_of_another_membership_is_told_what_to_set(found: ClusterMembership | None, why: str) -> None:
    assert re.search(why, BY_SECRET.refusal(found, "purgatorio/"))
