"""The purgatories of one broker, with Kafka's names, and the reaper that runs their deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.layers.faults.parked import PURGATORY as FAULT
from purgatorio.broker.layers.quotas.throttled_channel import PURGATORY as THROTTLED
from purgatorio.broker.metadata.delayed_decision import MetadataPurgatories
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords
from purgatorio.broker.replica.fetching.delayed_fetch import DelayedFetch
from purgatorio.broker.replica.producing.delayed_verification import ProduceOperation
from purgatorio.broker.share.acquisition_lock import PURGATORY as ACQUISITION_LOCK
from purgatorio.broker.share.dead_letters.retry import PURGATORY as DEAD_LETTER
from purgatorio.broker.share.persisting.coordinator_persister import PURGATORY as PERSISTER
from purgatorio.purgatory import ActionQueue, FinishedOperation, Purgatory, Reaper, Timer
from purgatorio.purgatory.clock import Clock


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
        self._fault: Purgatory[Any] | None = None
        self._throttled: Purgatory[Any] | None = None
        self._acquisition_lock: Purgatory[Any] | None = None
        self._persister: Purgatory[Any] | None = None
        self._dead_letter: Purgatory[Any] | None = None
        self._share_group: Purgatory[Any] | None = None
        self._lesson: Purgatory[Any] | None = None
        self.timer = Timer(member_now_ms)
        self.reaper = Reaper(clock.now_ms, actions=self.actions, call_later=clock.call_later)
        self.reaper.add(self.timer, listens=True)
        self._clock = clock
        self._session_clock = session_clock
        self._on_finished = on_finished
        self.produce: Purgatory[ProduceOperation] = self._add(
            "Produce", config.producer_purgatory_purge_interval_requests
        )
        self.fetch: Purgatory[DelayedFetch] = self._add("Fetch", config.fetch_purgatory_purge_interval_requests)
        self.share_fetch: Purgatory[Any] = self._add("ShareFetch", config.share_fetch_purgatory_purge_interval_requests)
        self.delete_records: Purgatory[DelayedDeleteRecords] = self._add(
            "DeleteRecords", config.delete_records_purgatory_purge_interval_requests
        )
        self.metadata = MetadataPurgatories(self._add("topic"), self._add("ElectLeader"), image)
        self.rebalance: Purgatory[Any] = self._add("Rebalance", now_ms=member_now_ms)
        self.heartbeat: Purgatory[Any] = self._add("Heartbeat", now_ms=member_now_ms)
        self.transaction: Purgatory[Any] = self._add("Transaction")
        self.transaction_timeout: Purgatory[Any] = self._add("TransactionTimeout", now_ms=session_clock.now_ms)

    def fault(self) -> Purgatory[Any]:
        """Return the purgatory of requests that wait because of a fault rule; it is made when the first one does."""
        if self._fault is None:
            self._fault = self._add(FAULT)
        return self._fault

    def throttled(self) -> Purgatory[Any]:
        """Return the purgatory of connections that a quota mutes; it is made when the first one is."""
        if self._throttled is None:
            self._throttled = self._add(THROTTLED)
        return self._throttled

    def acquisition_lock(self) -> Purgatory[Any]:
        """Return the purgatory of the locks of share groups' members; it is made when the first one acquires records.

        Its time is that of open transactions. A test that moves the clock ends locks, which is all that it can want to
        wait for; but while this process stands still no member can acknowledge, and must lose no record for that.
        """
        if self._acquisition_lock is None:
            self._acquisition_lock = self._add(ACQUISITION_LOCK, now_ms=self._session_clock.now_ms)
        return self._acquisition_lock

    def share_group(self) -> Purgatory[Any]:
        """Return the purgatory of what share groups wait for; it is made when the first one is created or loaded."""
        if self._share_group is None:
            self._share_group = self._add("ShareGroup")
        return self._share_group

    def persister(self) -> Purgatory[Any]:
        """Return the purgatory of failed calls to share coordinators; it is made when the first one fails."""
        if self._persister is None:
            self._persister = self._add(PERSISTER)
        return self._persister

    def dead_letter(self) -> Purgatory[Any]:
        """Return the purgatory of dead letters that could not be written; it is made when the first one could not."""
        if self._dead_letter is None:
            self._dead_letter = self._add(DEAD_LETTER)
        return self._dead_letter

    def lesson(self) -> Purgatory[Any]:
        """Return the purgatory of timers that a scene adds; it is made when a scene first asks for it."""
        if self._lesson is None:
            self._lesson = self._add("Lesson")
        return self._lesson

    def _add(
        self, name: str, purge_interval: int = 1_000, *, now_ms: Callable[[], int] | None = None
    ) -> Purgatory[Any]:
        """Add a purgatory with a timer of its own, so that each has its own counters.

        One with another clock judges clients: before it does, the loop reads what they have sent.
        """
        timer = Timer(now_ms or self._clock.now_ms)
        on_finished = self._on_finished if now_ms is None else self._on_finished_by_another_clock
        purgatory: Purgatory[Any] = Purgatory(
            name, timer, actions=self.actions, purge_interval=purge_interval, on_finished=on_finished
        )
        self.reaper.add(timer, listens=now_ms is not None)
        self.all.append(purgatory)
        return purgatory

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
