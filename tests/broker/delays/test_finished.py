"""Names for kinds of operations."""

from __future__ import annotations

import pytest

from purgatorio.broker.delays.finished import kind_of
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.delayed_fetch import FollowerKey

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("purgatory", "kind"),
    [("Produce", "produce"), ("topic", "topic"), ("ElectLeader", "elect leader"), ("DeleteRecords", "delete records")],
)
def test_kinds_are_words(purgatory: str, kind: str) -> None:
    assert kind_of(purgatory, [ORDERS]).noun == kind


def test_fetches_of_followers_and_of_consumers_are_of_two_kinds() -> None:
    assert kind_of("Fetch", [ORDERS, FollowerKey(2)]).noun == "follower fetch"
    assert kind_of("Fetch", [ORDERS]).noun == "consumer fetch"
