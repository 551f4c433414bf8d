"""Compaction and retention on demand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from purgatorio.testing import Kafka, cluster


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(topics={"orders": 1}) as running:
        running.topic("prices", cleanup_policy="compact")
        yield running


def test_each_key_keeps_its_newest_record_and_a_tombstone_goes_in_time(kafka: Kafka) -> None:
    for value in ("1", "2", "3"):
        kafka.produce("prices", value, key="tea")
    kafka.produce("prices", None, key="cake")
    kafka.compact("prices")
    kafka.compact()
    newest = [(2, b"tea", b"3"), (3, b"cake", None)]
    assert [(each.offset, each.key, each.value) for each in kafka.records("prices")] == newest
    kafka.clock.advance(2 * 24 * 3600)
    kafka.produce("prices", "4", key="tea")
    kafka.compact("prices")
    assert [(each.offset, each.key, each.value) for each in kafka.records("prices")] == [(4, b"tea", b"4")]


def test_a_topic_that_is_not_compacted_is_told(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"topic 'orders' is not compacted: its cleanup\.policy is delete"):
        kafka.compact("orders")
    with pytest.raises(ValueError, match="there is no topic 'price'; did you mean prices"):
        kafka.compact("price")


def test_retention_is_applied_on_demand() -> None:
    with cluster(topics={"orders": 1}, log_retention_ms=1_000, log_roll_ms=100) as kafka:
        kafka.produce("orders", "old", timestamp_ms=1)
        kafka.apply_retention()
        assert kafka.records("orders") == []
