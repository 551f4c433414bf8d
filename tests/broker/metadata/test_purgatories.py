"""A new image checks the requests about topics and partitions that changed, and no others."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.delayed_decision import ALL_TOPICS, MetadataPurgatories, TopicKey
from purgatorio.broker.metadata.image import ClusterImage, PartitionState, Topic
from purgatorio.purgatory import ActionQueue, DelayedOperation, Purgatory, Timer

STATE = PartitionState(1, 0, (1, 2), ())
ORDERS = Topic("orders", b"1" * 16, (STATE, STATE))
OTHER = Topic("other", b"2" * 16, (STATE,))
BLANK = ClusterImage(0, "test")
BOTH = BLANK.with_topics([ORDERS, OTHER])


class Watching(DelayedOperation):
    """Counts how often it is checked."""

    def __init__(self) -> None:
        super().__init__(1000)

    def try_complete(self) -> bool:
        return False


def checks(before: ClusterImage, after: ClusterImage, *, topics: Hashable = None, elections: Hashable = None) -> int:
    """Return how often an operation under this key is checked when one image follows another."""
    timer = Timer(lambda: 0)
    purgatory: Any = Purgatory("topic", timer, actions=ActionQueue())
    others: Any = Purgatory("ElectLeader", timer, actions=ActionQueue())
    purgatories = MetadataPurgatories(purgatory, others, BLANK)
    purgatories.image_changed(before)
    operation = Watching()
    (others if topics is None else purgatory).try_complete_else_watch(operation, [topics or elections])
    parked = operation.checks
    purgatories.image_changed(after)
    return operation.checks - parked


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (BLANK, BOTH, 1),
        (BOTH, BLANK, 1),
        (BOTH, BOTH.with_topics([replace(ORDERS, configs={"retention.ms": "1"})]), 1),
        (BOTH, BOTH.without_topics(["other"]), 0),
        (BOTH, BOTH.with_version(2), 0),
    ],
    ids=["created", "deleted", "changed", "another one deleted", "no topic changed"],
)
def test_a_request_about_a_topic_is_checked_when_the_topic_changes(
    before: ClusterImage, after: ClusterImage, expected: int
) -> None:
    assert checks(before, after, topics=TopicKey("orders")) == expected


def test_a_request_for_an_election_is_checked_when_the_partition_changes() -> None:
    moved = BOTH.with_partitions({("orders", 1): replace(STATE, leader=2, leader_epoch=1)})
    assert checks(BOTH, moved, elections=TopicPartition("orders", 1)) == 1
    assert checks(BOTH, moved, elections=TopicPartition("orders", 0)) == 0
    assert checks(BOTH, BLANK, elections=TopicPartition("orders", 1)) == 1
    grown = BOTH.with_topics([replace(ORDERS, partitions=(STATE, STATE, STATE))])
    assert checks(BOTH, grown, elections=TopicPartition("orders", 2)) == 1


def test_a_request_about_all_topics_is_checked_at_every_image() -> None:
    assert checks(BOTH, BOTH.with_version(2), topics=ALL_TOPICS) == 1
    assert checks(BOTH, BOTH.with_version(2), elections=ALL_TOPICS) == 1


def test_the_text_of_a_key_is_the_topics_name() -> None:
    assert str(TopicKey("orders")) == "orders"
