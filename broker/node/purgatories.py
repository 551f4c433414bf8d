"""The purgatories of one broker, made by the table in `broker/causes/kinds.py`, and the reaper of their deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from purgatorio.broker.causes.kinds import ELECT_LEADER, KINDS, TOPIC, Kind, Time
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.metadata.delayed_decision import MetadataPurgatories
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.purgatory import ActionQueue, FinishedOperation, Purgatory, Reaper, Timer
from purgatorio.purgatory.clock import Clock

PURGE_INTERVAL: Final = 1_000
"""Kafka's default, for purgatories without a setting."""


class BrokerPurgatories:
    """The purgatories of one broker.

    Args:
        session_clock: the source of time without the standstills of this process. Open transactions and acquisition
            locks are judged by it: while the process stands still it hears no client, and must end none for that.
        member_now_ms: the same for members of groups, without the times that a test skipped.
        on_finished: called with every operation that has ended.

    Attributes:
        all: all of them, in the order in which the page shows them.
        actions: the queue of events that they share.
        reaper: runs the deadlines; a task runs it.
        timer: deadlines of groups that no operation waits for.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        session_clock: Clock,
        member_now_ms: Callable[[], int],
        image: ClusterImage,
        on_finished: Callable[[FinishedOperation], None],
    ) -> None:
        self.actions = ActionQueue()
        self.all: list[Purgatory[Any]] = []
        self._made: dict[str, Purgatory[Any]] = {}
        self.timer = Timer(member_now_ms)
        self.reaper = Reaper(clock.now_ms, actions=self.actions, call_later=clock.call_later)
        self.reaper.add(self.timer, listens=True)
        self._config = config
        self._clock = clock
        self._times = {Time.BROKER: clock.now_ms, Time.PROCESS: session_clock.now_ms, Time.MEMBERS: member_now_ms}
        self._on_finished = on_finished
        for kind in KINDS.values():
            if not kind.is_late:
                self.of(kind)
        self.metadata = MetadataPurgatories(self.of(TOPIC), self.of(ELECT_LEADER), image)

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
        timer = Timer(self._times[kind.time])
        self.reaper.add(timer, listens=judges)
        interval = PURGE_INTERVAL if kind.purges_by is None else getattr(self._config, kind.purges_by)
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
