"""Leases of the embedded store, and links that are slow or cut."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.metadata.controller import TopicSettings, fence_broker, register_broker
from purgatorio.broker.metadata.embedded import EmbeddedStore, EmbeddedView
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.store import LeaseLost
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.purgatory.clock import ManualClock
from tests.broker.metadata.stores import StoreBehindConnections
from tests.endpoints import plaintext

SETTINGS = TopicSettings()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[EmbeddedStore, StoreBehindConnections])
def store(turns: Any, clock: ManualClock, request: Any) -> EmbeddedStore:
    made: EmbeddedStore = request.param("cluster", turns.call_soon, clock)
    return made


def grant(view: EmbeddedView, turns: Any, ttl_ms: int = 100) -> int:
    granted: list[int] = []
    view.grant_lease(ttl_ms, granted.append)
    assert granted == [], "nothing is delivered before the call has returned"
    turns.run()
    return granted[0]


def keep(view: EmbeddedView, turns: Any, lease_id: int) -> bool:
    kept: list[bool] = []
    view.keep_lease(lease_id, kept.append)
    turns.run()
    return kept[0]


def register(view: EmbeddedView, turns: Any, lease_id: int, broker_id: int = 1) -> list[Any]:
    """Register a broker under a lease; returns its epoch or the error."""
    told: list[Any] = []
    view.submit(
        lambda image: register_broker(image, broker_id, plaintext("h", 1), lease_id=lease_id, settings=SETTINGS),
        told.append,
        told.append,
        lease_id=lease_id,
    )
    turns.run()
    return told


def take_id(image: ClusterImage) -> tuple[ClusterImage, int]:
    return dataclasses.replace(image, next_producer_id=image.next_producer_id + 1), image.next_producer_id


def test_a_lease_expires_its_time_after_it_was_last_kept_and_is_never_valid_again(
    store: EmbeddedStore, turns: Any, clock: ManualClock
) -> None:
    view = store.open()
    lease_id = grant(view, turns)
    assert grant(view, turns) != lease_id
    clock.advance_ms(99)
    store.expire_leases()
    assert keep(view, turns, lease_id)
    clock.advance_ms(99)
    store.expire_leases()
    assert keep(view, turns, lease_id)
    clock.advance_ms(100)
    store.expire_leases()
    assert not keep(view, turns, lease_id)
    assert not keep(view, turns, lease_id)


def test_a_decision_that_depends_on_an_expired_lease_fails(
    store: EmbeddedStore, turns: Any, clock: ManualClock
) -> None:
    view = store.open()
    lease_id = grant(view, turns)
    clock.advance_ms(100)
    store.expire_leases()
    assert [type(told) for told in register(view, turns, lease_id)] == [LeaseLost]
    assert store.image.version == 0


def test_every_view_is_notified_of_a_lost_lease_until_the_broker_is_fenced(
    store: EmbeddedStore, turns: Any, clock: ManualClock
) -> None:
    views = [store.open(), store.open()]
    told: list[int] = []
    for view in views:
        view.watch_lost_leases(told.append)
    lease_id = grant(views[0], turns)
    unused = grant(views[0], turns)
    assert register(views[0], turns, lease_id) == [1]
    clock.advance_ms(100)
    for times in (2, 4):
        store.expire_leases()
        turns.run()
        assert told == [lease_id] * times
    assert unused not in told, "no broker relies on it"
    views[1].submit(lambda image: fence_broker(image, lease_id, settings=SETTINGS), lambda _: None)
    turns.run()
    told.clear()
    store.expire_leases()
    turns.run()
    assert told == []


def test_a_view_that_is_opened_later_is_notified_of_a_lost_lease_too(
    store: EmbeddedStore, turns: Any, clock: ManualClock
) -> None:
    view = store.open()
    lease_id = grant(view, turns)
    register(view, turns, lease_id)
    view.close()
    clock.advance_ms(100)
    store.expire_leases()
    told: list[int] = []
    late = store.open()
    unwatch = late.watch_lost_leases(told.append)
    turns.run()
    assert told == [lease_id]
    unwatch()
    store.expire_leases()
    turns.run()
    assert told == [lease_id]


async def test_leases_do_not_expire_while_the_process_is_suspended(turns: Any, clock: ManualClock) -> None:
    running = RunningClock(clock)
    store = EmbeddedStore("cluster", turns.call_soon, running)
    view = store.open()
    lease_id = grant(view, turns, ttl_ms=400)
    clock.advance_ms(5_000)
    store.expire_leases()
    assert keep(view, turns, lease_id)


class SlowLink:
    """Holds messages until the test delivers them."""

    def __init__(self) -> None:
        self.outward: deque[Callable[[], None]] = deque()
        self.inward: deque[Callable[[], None]] = deque()

    def to_store(self, deliver: Callable[[], None]) -> None:
        self.outward.append(deliver)

    def to_broker(self, deliver: Callable[[], None]) -> None:
        self.inward.append(deliver)

    def carry(self, messages: deque[Callable[[], None]]) -> None:
        for _ in range(len(messages)):
            messages.popleft()()


@pytest.mark.parametrize("store", [EmbeddedStore], indirect=True)  # whose links can be held
def test_while_the_link_is_cut_nothing_is_delivered_and_afterwards_everything_in_order(
    store: EmbeddedStore, turns: Any
) -> None:
    link = SlowLink()
    far, near = store.open(link), store.open()
    seen: list[Any] = []
    far.watch(lambda image: seen.append(image.version))
    far.submit(take_id, lambda producer_id: seen.append(f"id {producer_id}"))
    near.submit(take_id, lambda _: None)
    turns.run()
    assert (store.image.version, far.image.version, seen) == (1, 0, [])
    link.carry(link.outward)
    link.carry(link.inward)
    turns.run()
    assert seen == [1], "it lost the race, has seen why, and has decided again"
    link.carry(link.outward)
    link.carry(link.inward)
    turns.run()
    assert seen == [1, 2, "id 1"]


@pytest.mark.parametrize("store", [EmbeddedStore], indirect=True)  # whose links can be held
def test_a_decision_is_committed_even_while_its_answer_is_held(store: EmbeddedStore, turns: Any) -> None:
    link = SlowLink()
    far = store.open(link)
    results: list[int] = []
    far.submit(take_id, results.append)
    turns.run()
    link.carry(link.outward)
    assert (store.image.version, far.image.version, results) == (1, 0, [])
    link.carry(link.inward)
    assert (far.image.version, results) == (1, [0])
