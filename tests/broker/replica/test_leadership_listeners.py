"""Coordinators and others are told which partitions this broker begins and ceases to lead."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from tests.broker.replica.harness import ORDERS, Harness, topic


class Told:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        self.events.append(("elected", tp, leader_epoch))

    def resigned(self, tp: TopicPartition) -> None:
        self.events.append(("resigned", tp))


@pytest.fixture
def told(broker: Harness) -> Told:
    listener = Told()
    broker.replicas.tell_leaderships(listener)
    broker.set_topics(topic())
    return listener


@pytest.fixture
def broker() -> Harness:
    return Harness()


def test_an_election_is_told_once_however_often_the_metadata_change(broker: Harness, told: Told) -> None:
    broker.set_topics(topic(isr=(1, 2), partition_epoch=1))
    assert told.events == [("elected", ORDERS, 0)]


def test_an_election_in_a_later_epoch_is_told_again(broker: Harness, told: Told) -> None:
    broker.set_topics(topic(leader_epoch=4, partition_epoch=1))
    assert told.events == [("elected", ORDERS, 0), ("elected", ORDERS, 4)]


@pytest.mark.parametrize(
    "change",
    [
        {"leader": 2, "leader_epoch": 1, "partition_epoch": 1},
        {"leader": -1, "leader_epoch": 1, "partition_epoch": 1},
        {"leader": 2, "leader_epoch": 1, "partition_epoch": 1, "replicas": (2, 3)},
    ],
    ids=["another leader", "no leader", "replica moved away"],
)
def test_a_leadership_that_is_lost_is_told(broker: Harness, told: Told, change: dict[str, object]) -> None:
    broker.set_topics(topic(**change))  # type: ignore[arg-type]
    assert told.events == [("elected", ORDERS, 0), ("resigned", ORDERS)]


def test_the_deletion_of_a_topic_ends_its_leaderships(broker: Harness, told: Told) -> None:
    broker.set_topics()
    assert told.events == [("elected", ORDERS, 0), ("resigned", ORDERS)]


def test_a_topic_that_was_made_anew_begins_with_an_election(broker: Harness, told: Told) -> None:
    broker.set_topics(topic(topic_id=b"another".ljust(16)))
    assert told.events == [("elected", ORDERS, 0), ("resigned", ORDERS), ("elected", ORDERS, 0)]


def test_nothing_is_told_of_partitions_that_are_only_followed(broker: Harness, told: Told) -> None:
    broker.set_topics(topic(), topic("other", leader=2))
    broker.set_topics(topic())
    assert told.events == [("elected", ORDERS, 0)]
