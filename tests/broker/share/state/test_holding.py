"""Ten thousand state batches, and ten thousand updates, do not hold the loop for long."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from purgatorio.broker.share.state.batches import MAX_BATCHES, MAX_OVERLAPPING
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import StateBatch
from tests.broker.server.holding import Cost, assert_within_bound
from tests.broker.share.state.harness import ACKED, ARCHIVED, AVAILABLE, ShareHarness, batch, initialized

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]
TRIES = 5


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    """Brokers freeze what they have (`GarbageTuning`)."""
    gc.disable()
    yield
    gc.enable()


def holes(state: int, count: int = 1, shift: int = 0, length: int = 1) -> list[StateBatch]:
    """As many batches as a share partition has, none of which can be joined."""
    return [batch(3 * each + shift, 3 * each + shift + length - 1, state, count) for each in range(MAX_BATCHES)]


def least_ms(prepare: Callable[[], ShareHarness], act: Callable[[ShareHarness], Any]) -> float:
    best_ms = float("inf")
    for _ in range(TRIES):
        broker = prepare()
        before = time.thread_time()
        act(broker)
        best_ms = min(best_ms, (time.thread_time() - before) * 1_000)
    return best_ms


def broker_with(batches: Sequence[StateBatch] = (), **config: int) -> ShareHarness:
    broker = ShareHarness(**config)
    initialized(broker)
    assert broker.write(*batches).error == ErrorCode.NONE
    return broker


@pytest.mark.parametrize(
    ("title", "before", "change"),
    [
        ("new", [], holes(AVAILABLE)),
        ("the same", holes(AVAILABLE), holes(AVAILABLE)),
        ("all acknowledged", holes(AVAILABLE), holes(ACKED)),
        ("joined", holes(AVAILABLE, length=2), holes(AVAILABLE, shift=2)),
        ("shifted", holes(AVAILABLE, length=2), holes(ARCHIVED, shift=1, length=2)[: MAX_BATCHES // 3]),
        ("one", holes(AVAILABLE), [batch(15_000, 15_000, ACKED)]),
        ("few", holes(AVAILABLE), holes(ACKED)[::40]),
        ("not quite few", holes(AVAILABLE), holes(ACKED)[::30]),
        ("nested", [], [batch(each, 50_000 - each, AVAILABLE, each) for each in range(MAX_OVERLAPPING)]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("updates_per_snapshot", [500, 1])
def test_a_write_does_not_hold_the_loop(
    title: str, before: list[StateBatch], change: list[StateBatch], updates_per_snapshot: int
) -> None:
    def prepare() -> ShareHarness:
        return broker_with(before, updates_per_snapshot=updates_per_snapshot)

    assert_within_bound(Cost(least_ms(prepare, lambda broker: broker.write(*change)), title))


def test_a_read_does_not_hold_the_loop() -> None:
    cost = least_ms(lambda: broker_with(holes(AVAILABLE)), lambda broker: broker.read())
    assert_within_bound(Cost(cost, "read"))


def test_loading_is_done_in_short_steps() -> None:
    broker = ShareHarness((1, 2))
    initialized(broker)
    for each in range(10_000):
        broker.write(batch(2 * (each % 2_000), 2 * (each % 2_000), ACKED, each // 2_000 + 1))
    broker.commit()
    longest = []
    for epoch in range(2, 2 + 2 * TRIES, 2):
        broker.elect(2, epoch - 1)
        broker.work()
        broker.elect(1, epoch)
        longest.append(longest_step_ms(broker.coordinator.steps()))
        broker.commit()
        broker.work()
        assert len(broker.kept().batches) == 2_000
    assert_within_bound(Cost(min(longest), "load"))


def longest_step_ms(steps: Iterator[None]) -> float:
    took = [0.0]
    while True:
        before = time.thread_time()
        if next(steps, steps) is steps:
            return max(took) * 1_000
        took.append(time.thread_time() - before)
