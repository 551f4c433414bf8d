"""Changes the time of a cluster: moves it forward, stops it, and lets it go on.

A client that reaches the admin HTTP can also kill brokers, so moving their time needs no permission of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from purgatorio.broker.causes.kinds import FOLLOWER_FETCH
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.delays.finished import kind_of
from purgatorio.broker.time import MAX_ADVANCE_SECONDS
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.purgatory import FinishedOperation

LIVED_MS: Final = 900_000
"""The last part of a move, which brokers live through in steps: transaction.max.timeout.ms, the longest of the times
that need it. It takes about a second."""
ENDED_KEPT: Final = 10_000
"""The most operations that the answer to one move lists."""


class EndedOperation(NamedTuple):
    """An operation whose time was over, and the id of its broker."""

    broker_id: int
    operation: FinishedOperation


class ClockControl:
    """Moves the clock of a cluster."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster

    @property
    def clock(self) -> MovableClock:
        """The clock.

        Raises:
            OperationRefused: the cluster was given a clock that cannot be moved.
        """
        clock = self._cluster.clock
        if not isinstance(clock, MovableClock):
            raise OperationRefused("this cluster was given a clock that cannot be moved here")
        return clock

    def state(self) -> dict[str, Any]:
        """Return the brokers' time, whether it can be moved, and whether it stands still."""
        clock = self._cluster.clock
        is_movable = isinstance(clock, MovableClock)
        is_frozen = isinstance(clock, MovableClock) and clock.is_frozen
        return {"now_ms": clock.now_ms(), "wall_ms": clock.wall_ms(), "movable": is_movable, "frozen": is_frozen}

    def reset(self) -> None:
        """Let the brokers' time be the machine's again, if it was moved or stopped (`MovableClock.set_wall`)."""
        if isinstance(self._cluster.clock, MovableClock):
            self._cluster.clock.set_wall()

    async def advance(self, seconds: float, *, sessions: bool) -> list[EndedOperation]:
        """Move the clock; return the operations whose time was over by that, without fetches of followers.

        Brokers live through the last `LIVED_MS` in steps, with their heartbeats and fetches. The time before is skipped
        at once; the lease clock takes it for a time in which the process stood still.

        Args:
            sessions: whether the time counts for members of groups, which cannot send heartbeats at that pace.

        Raises:
            OperationRefused: the clock cannot be moved.
            ValueError: `seconds` is negative, larger than `MAX_ADVANCE_SECONDS`, or no number.
        """
        clock = self.clock
        if math.isnan(seconds) or not 0 <= seconds <= MAX_ADVANCE_SECONDS:
            raise ValueError(f"time goes forward, by up to {MAX_ADVANCE_SECONDS} seconds, not by {seconds!r}")
        ended = _EndedOperations(self._cluster)
        total_ms = round(seconds * 1000)
        lived_ms = min(total_ms, LIVED_MS)
        if total_ms > lived_ms:
            clock.jump(total_ms - lived_ms)
        await clock.run_for(lived_ms, moving=self._moving(ended, sessions))
        ended.collect()
        return ended.found

    def _moving(self, ended: _EndedOperations, sessions: bool) -> Callable[[int], None]:
        def moving(step_ms: int) -> None:
            self._cluster.lease_clock.beat()
            self._cluster.transaction_clock.beat()
            ended.collect()
            if not sessions:
                self._cluster.member_clock.leave_out(step_ms)

        return moving


class _EndedOperations:
    """Gathers the operations of brokers that expire from now on; call `collect` before brokers forget them."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._seen = {id(broker.finished): broker.finished.total for broker in cluster.brokers}
        self.found: list[EndedOperation] = []

    def collect(self) -> None:
        """Add what has expired since the last call."""
        for broker in self._cluster.brokers:
            finished = broker.finished
            new = finished.total - self._seen.get(id(finished), 0)
            if new:
                self._seen[id(finished)] = finished.total
                found = [each for each in reversed(finished.last(new)) if _counts(each)]
                room = ENDED_KEPT - len(self.found)
                self.found += [EndedOperation(broker.broker_id, each) for each in found[:room]]


def _counts(operation: FinishedOperation) -> bool:
    return operation.outcome == "expired" and kind_of(operation.purgatory, operation.keys) is not FOLLOWER_FETCH
