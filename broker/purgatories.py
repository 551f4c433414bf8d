"""The purgatories of one broker, with Kafka's names, and the reaper that runs their deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.clock import Clock
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.purgatories import MetadataPurgatories
from purgatorio.broker.purgatory import ActionQueue, FinishedOperation, Purgatory, Reaper, Timer
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords
from purgatorio.broker.replica.delayed_fetch import DelayedFetch
from purgatorio.broker.replica.delayed_produce import DelayedProduce


class BrokerPurgatories:
    """The purgatories of one broker.

    Args:
        config: the broker's configs.
        clock: the source of time.
        image: this broker's current image.
        on_finished: called with every operation that has ended.

    Attributes:
        all: all of them, in the order in which the page shows them.
        actions: the queue of events that they share.
        reaper: runs the deadlines; a task runs it.
        timer: deadlines that no operation waits for.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: ClusterImage,
        on_finished: Callable[[FinishedOperation], None],
    ) -> None:
        self.actions = ActionQueue()
        self.all: list[Purgatory[Any]] = []
        self.timer = Timer(clock.now_ms)
        self.reaper = Reaper(clock.now_ms, [self.timer], actions=self.actions, call_later=clock.call_later)
        self._now_ms = clock.now_ms
        self._on_finished = on_finished
        self.produce: Purgatory[DelayedProduce] = self._add(
            "Produce", config.producer_purgatory_purge_interval_requests
        )
        self.fetch: Purgatory[DelayedFetch] = self._add("Fetch", config.fetch_purgatory_purge_interval_requests)
        self.delete_records: Purgatory[DelayedDeleteRecords] = self._add(
            "DeleteRecords", config.delete_records_purgatory_purge_interval_requests
        )
        self.metadata = MetadataPurgatories(self._add("topic"), self._add("ElectLeader"), image)
        self.rebalance: Purgatory[Any] = self._add("Rebalance")
        self.heartbeat: Purgatory[Any] = self._add("Heartbeat")

    def _add(self, name: str, purge_interval: int = 1_000) -> Purgatory[Any]:
        """Add a purgatory with a timer of its own, so that each has its own counters."""
        timer = Timer(self._now_ms)
        purgatory: Purgatory[Any] = Purgatory(
            name, timer, actions=self.actions, purge_interval=purge_interval, on_finished=self._on_finished
        )
        self.reaper.add(timer)
        self.all.append(purgatory)
        return purgatory
