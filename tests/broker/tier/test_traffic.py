"""Tests of the traffic with the tier: its quotas and its counts."""

from __future__ import annotations

from purgatorio.broker.tier.traffic import MAX_TOPICS, UNLIMITED, TierTraffic
from purgatorio.purgatory.clock import ManualClock


def test_kafkas_default_is_no_limit() -> None:
    traffic = TierTraffic(ManualClock())
    traffic.limit(copy=UNLIMITED, fetch=5)
    assert (traffic.copies.limit, traffic.reads.limit) == (None, 5)


def test_the_partitions_of_a_topic_have_the_same_counts() -> None:
    traffic = TierTraffic(ManualClock())
    traffic.of_folder("cluster/0a/0/").copy_bytes += 1
    traffic.of_folder("cluster/0a/1/").copy_bytes += 1
    assert traffic.topics["0a"].copy_bytes == traffic.of_topic("0a").copy_bytes == 2


def test_topics_are_limited() -> None:
    traffic = TierTraffic(ManualClock())
    for number in range(MAX_TOPICS + 1):
        traffic.of_topic(str(number))
    assert (len(traffic.topics), "0" in traffic.topics) == (MAX_TOPICS, False)
