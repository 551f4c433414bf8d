"""The purgatories of one broker, made by the table in `kinds.py`, and the reaper of their deadlines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from purgatorio.broker.causes.kinds import KINDS, Kind, Time
from purgatorio.broker.time.clocks import Clocks
from purgatorio.purgatory import ActionQueue, FinishedOperation, Purgatory, Reaper, Timer

PURGE_INTERVAL: Final = 1_000
"""Kafka's default, for purgatories without a setting."""


class Purgatories:
    """The purgatories of one broker.

    Args:
        clocks: those of the broker; a kind says by which one its deadlines go.
        on_finished: called with every operation that has ended.
        purge_intervals: by the setting that a kind names.

    Attributes:
        all: all of them, in the order in which the page shows them.
        actions: the queue of events that they share.
        reaper: runs the deadlines; a task runs it.
        timer: deadlines of groups that no operation waits for.
    """

    def __init__(
        self,
        clocks: Clocks,
        on_finished: Callable[[FinishedOperation], None],
        purge_intervals: Mapping[str, int] | None = None,
    ) -> None:
        self.actions = ActionQueue()
        self.all: list[Purgatory[Any]] = []
        self._made: dict[str, Purgatory[Any]] = {}
        self.timer = Timer(clocks.members.now_ms)
        self._clock = clock = clocks.broker
        self.reaper = Reaper(clock.now_ms, actions=self.actions, call_later=clock.call_later)
        self.reaper.add(self.timer, listens=True)
        self._clocks = {Time.BROKER: clock, Time.PROCESS: clocks.transactions, Time.MEMBERS: clocks.members}
        self._on_finished = on_finished
        self._purge_intervals = purge_intervals or {}
        for kind in KINDS.values():
            if not kind.is_late:
                self.of(kind)

    def of(self, kind: Kind) -> Purgatory[Any]:
        """Return the purgatory of a kind; it is made when it is first asked for."""
        purgatory = self._made.get(kind.purgatory)
        if purgatory is None:
            purgatory = self._made[kind.purgatory] = self._make(kind)
            self.all.append(purgatory)
        return purgatory

    def _make(self, kind: Kind) -> Purgatory[Any]:
        """Make a purgatory with a timer of its own, so that each has its own counters.

        One with another clock judges clients: before it does, the loop reads what they have sent.
        """
        judges = kind.time is not Time.BROKER
        timer = Timer(self._clocks[kind.time].now_ms)
        self.reaper.add(timer, listens=judges)
        interval = self._purge_intervals.get(kind.purges_by or "", PURGE_INTERVAL)
        on_finished = self._on_finished_by_another_clock if judges else self._on_finished
        return Purgatory(kind.purgatory, timer, actions=self.actions, purge_interval=interval, on_finished=on_finished)

    def _on_finished_by_another_clock(self, operation: FinishedOperation) -> None:
        """Report an operation with its times on the broker's clock, as those of all others."""
        shift_ms = self._clock.now_ms() - operation.done_ms
        self._on_finished(
            operation._replace(
                parked_ms=operation.parked_ms + shift_ms,
                done_ms=operation.done_ms + shift_ms,
                deadline_ms=operation.deadline_ms + shift_ms,
            )
        )
