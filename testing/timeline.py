"""Which leaders and in-sync replicas partitions had one after the other, for the report of a failed test."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from purgatorio.broker.metadata.delta import TopicDelta, changed_topics
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState
from purgatorio.broker.metadata.served import AnyStore
from purgatorio.purgatory.clock import Clock

CHANGES_KEPT: Final = 200


class PartitionChange(NamedTuple):
    """A change of one partition.

    Attributes:
        at_ms: when, since the cluster's start or reset, on the brokers' clock.
        partition: its name, with the number behind a dash.
        what: a sentence: the leader or the in-sync replicas before and after.
    """

    at_ms: int
    partition: str
    what: str


class Timeline:
    """The last changes of leaders and in-sync replicas; the creation of a partition is none.

    Args:
        clock: the time of the changes.

    Attributes:
        changes: the changes, oldest first.
        total: the changes so far, also those that are forgotten.
    """

    def __init__(self, clock: Clock) -> None:
        self.changes: deque[PartitionChange] = deque(maxlen=CHANGES_KEPT)
        self.total = 0
        self._clock = clock
        self._begun_ms = 0
        self._image: ClusterImage | None = None

    def follow(self, store: AnyStore) -> None:
        """Note the changes in a store from now on, and forget earlier ones. It ends with the store."""
        self.changes.clear()
        self._begun_ms = self._clock.now_ms()
        view = store.open()
        self._image = view.image
        view.watch(self._changed)

    @property
    def now_ms(self) -> int:
        """The time since the cluster's start or reset, as that of the changes."""
        return self._clock.now_ms() - self._begun_ms

    def _changed(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        at_ms = self.now_ms
        for delta in changed_topics(before, image):
            found = [PartitionChange(at_ms, name, what) for name, what in _changes(delta)]
            self.total += len(found)
            self.changes.extend(found)

    def since(self, total: int) -> list[PartitionChange]:
        """Return the changes, as far as they are kept, since `total` was that number."""
        new = self.total - total
        return list(self.changes)[-new:] if new else []


def _changes(delta: TopicDelta) -> Iterator[tuple[str, str]]:
    if delta.before is None or delta.after is None or delta.before.topic_id != delta.after.topic_id:
        return
    was, now = delta.before.partitions, delta.after.partitions
    for index in delta.partitions:
        if index < min(len(was), len(now)):
            for what in _changes_of_row(was[index], now[index]):
                yield f"{delta.name}-{index}", what


def _changes_of_row(was: PartitionState, now: PartitionState) -> Iterator[str]:
    if was.leader != now.leader:
        yield f"leader {_leader(was)} → {_leader(now)}"
    if was.isr_ids != now.isr_ids:
        yield f"in sync {_ids(was)} → {_ids(now)}"


def _leader(state: PartitionState) -> str:
    return "none" if state.leader == NO_LEADER else str(state.leader)


def _ids(state: PartitionState) -> str:
    return " ".join(map(str, state.isr_ids)) or "none"
