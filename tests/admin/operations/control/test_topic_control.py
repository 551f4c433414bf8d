"""Reads wait for what is acknowledged: a moment for followers, longer for those of a new leader."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from purgatorio.admin.operations.control.topic_control import (
    COMMIT_PATIENCE_MS,
    ELECTION_PATIENCE_MS,
    until_replicated,
)
from purgatorio.broker.cluster import decisions
from purgatorio.purgatory.clock import ManualClock


@dataclass
class Log:
    log_end_offset: int


@dataclass
class Leader:
    """A leader's replica, with one record that no follower is known to have."""

    leader_epoch_start_offset: int
    log: Log
    high_watermark: int = 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Stands for the machine's time."""
    clock = ManualClock()
    monkeypatch.setattr(decisions, "_MACHINE", clock)
    return clock


def waiting(*leaders: Any) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(until_replicated(lambda: leaders))


async def test_a_record_of_a_new_leaders_predecessor_is_awaited_until_its_followers_have_heard_of_it(
    clock: ManualClock,
) -> None:
    leader = Leader(1, Log(1))
    task = waiting(leader)
    await clock.run_for(ELECTION_PATIENCE_MS - 100)
    assert not task.done()
    leader.high_watermark = 1
    await clock.run_for(decisions.POLL_MS)
    assert task.done()


async def test_followers_that_do_not_come_are_not_awaited_for_ever(clock: ManualClock) -> None:
    task = waiting(Leader(1, Log(1)))
    await clock.run_for(ELECTION_PATIENCE_MS + COMMIT_PATIENCE_MS + 2 * decisions.POLL_MS)
    assert task.done()
    assert task.exception() is None


async def test_a_record_that_the_leader_has_from_a_client_is_awaited_a_moment(clock: ManualClock) -> None:
    task = waiting(Leader(0, Log(1)))
    await clock.run_for(COMMIT_PATIENCE_MS - 2 * decisions.POLL_MS)
    assert not task.done()
    await clock.run_for(4 * decisions.POLL_MS)
    assert task.done()
