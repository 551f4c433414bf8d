"""The changes of leaders and in-sync replicas that a report shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from purgatorio.broker.metadata.embedded import EmbeddedStore
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.purgatory.clock import ManualClock
from purgatorio.testing.timeline import CHANGES_KEPT, Timeline

ISR = tuple(BrokerIncarnation(broker_id, 1) for broker_id in (1, 2, 3))
STATE = PartitionState(leader=1, leader_epoch=0, replicas=(1, 2, 3), isr=ISR)


class Store:
    """A store, whose messages are delivered at once, and the timeline of its changes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = EmbeddedStore("test", lambda callback: callback(), self.clock)
        self.view = self.store.open()
        self.timeline = Timeline(self.clock)
        self.timeline.follow(self.store)

    def change(self, change: Callable[[ClusterImage], ClusterImage]) -> None:
        self.view.submit(lambda image: (change(image), None), lambda _: None)

    def create(self, *states: PartitionState, topic_id: bytes = b"1" * 16) -> None:
        self.change(lambda image: image.with_topics([Topic("orders", topic_id, states)]))

    def set(self, state: PartitionState, index: int = 0) -> None:
        self.change(lambda image: image.with_partitions({("orders", index): state}))

    @property
    def told(self) -> list[tuple[int, str, str]]:
        return [tuple(change) for change in self.timeline.changes]  # type: ignore[misc] # a NamedTuple's types


def test_leaders_and_in_sync_replicas_are_noted_with_the_time_and_creations_are_not() -> None:
    store = Store()
    store.create(STATE, STATE)
    store.clock.advance_ms(500)
    store.set(replace(STATE, isr=ISR[:2]), 1)
    store.clock.advance_ms(500)
    store.set(replace(STATE, leader=2, isr=ISR[1:2]), 1)
    store.set(replace(STATE, leader=NO_LEADER, isr=()), 0)
    assert store.told == [
        (500, "orders-1", "in sync 1 2 3 → 1 2"),
        (1_000, "orders-1", "leader 1 → 2"),
        (1_000, "orders-1", "in sync 1 2 → 2"),
        (1_000, "orders-0", "leader 1 → none"),
        (1_000, "orders-0", "in sync 1 2 3 → none"),
    ]


def test_a_topic_that_is_deleted_or_created_anew_is_no_change_of_its_partitions() -> None:
    store = Store()
    store.create(STATE)
    store.create(replace(STATE, leader=2), topic_id=b"2" * 16)
    store.change(lambda image: image.without_topics(["orders"]))
    assert store.told == []


def test_another_store_begins_anew() -> None:
    store = Store()
    store.create(STATE)
    store.set(replace(STATE, leader=2))
    store.clock.advance_ms(100)
    other = Store()
    store.timeline.follow(other.store)
    assert store.told == []
    other.create(STATE)
    store.clock.advance_ms(7)
    other.set(replace(STATE, leader=3))
    assert store.told == [(7, "orders-0", "leader 1 → 3")]


def test_only_the_last_changes_are_kept() -> None:
    store = Store()
    store.create(STATE)
    for nth in range(CHANGES_KEPT + 5):
        store.set(replace(STATE, leader=1 + (nth + 1) % 2))
    assert len(store.told) == CHANGES_KEPT
