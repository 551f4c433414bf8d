"""Leadership listeners are notified when this broker gains or loses a leadership."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from tests.broker.replica.harness import ORDERS, Harness, topic


class Notified:
    """A listener that records the notifications."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        self.events.append(("elected", tp, leader_epoch))

    def resigned(self, tp: TopicPartition) -> None:
        self.events.append(("resigned", tp))


@pytest.fixture
def notified(broker: Harness) -> Notified:
    listener = Notified()
    broker.replicas.add_leadership_listener(listener)
    broker.set_topics(topic())
    return listener


@pytest.fixture
def broker() -> Harness:
    return Harness()


def test_an_election_is_notified_once_even_if_the_image_changes_again(broker: Harness, notified: Notified) -> None:
    broker.set_topics(topic(isr=(1, 2), partition_epoch=1))
    assert notified.events == [("elected", ORDERS, 0)]


def test_an_election_in_a_later_leader_epoch_is_notified_again(broker: Harness, notified: Notified) -> None:
    broker.set_topics(topic(leader_epoch=4, partition_epoch=1))
    assert notified.events == [("elected", ORDERS, 0), ("elected", ORDERS, 4)]


@pytest.mark.parametrize(
    "change",
    [
        {"leader": 2, "leader_epoch": 1, "partition_epoch": 1},
        {"leader": -1, "leader_epoch": 1, "partition_epoch": 1},
        {"leader": 2, "leader_epoch": 1, "partition_epoch": 1, "replicas": (2, 3)},
    ],
    ids=["another leader", "no leader", "replica moved away"],
)
def test_a_lost_leadership_is_notified(broker: Harness, notified: Notified, change: dict[str, object]) -> None:
    broker.set_topics(topic(**change))  # type: ignore[arg-type]
    assert notified.events == [("elected", ORDERS, 0), ("resigned", ORDERS)]


def test_the_deletion_of_a_topic_ends_its_leaderships(broker: Harness, notified: Notified) -> None:
    broker.set_topics()
    assert notified.events == [("elected", ORDERS, 0), ("resigned", ORDERS)]


def test_a_topic_that_is_deleted_and_created_again_is_notified_as_elected(broker: Harness, notified: Notified) -> None:
    broker.set_topics(topic(topic_id=b"another".ljust(16)))
    assert notified.events == [("elected", ORDERS, 0), ("resigned", ORDERS), ("elected", ORDERS, 0)]


def test_followed_partitions_are_not_notified(broker: Harness, notified: Notified) -> None:
    broker.set_topics(topic(), topic("other", leader=2))
    broker.set_topics(topic())
    assert notified.events == [("elected", ORDERS, 0)]
