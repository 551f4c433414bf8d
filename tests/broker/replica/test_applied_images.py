"""What a new image costs follows what it changed, not what there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import PartitionState
from purgatorio.broker.replica.partition import Partition
from tests.broker.replica.harness import Harness, topic

PARTITIONS = 50


@pytest.fixture
def broker() -> Harness:
    """Broker 1 leads all partitions of one topic."""
    harness = Harness()
    harness.set_topics(topic(partitions=PARTITIONS))
    return harness


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The partitions to which a state was applied."""
    seen: list[int] = []
    apply_state = Partition.apply_state

    def note(self: Partition, state: PartitionState, now_ms: int) -> None:
        seen.append(self.tp.partition)
        apply_state(self, state, now_ms)

    monkeypatch.setattr(Partition, "apply_state", note)
    return seen


def test_one_changed_partition_is_the_only_one_that_is_applied(broker: Harness, applied: list[int]) -> None:
    """All rows of a topic of 1,000 partitions were applied and woken at each change of an ISR: 350 ms of the loop."""
    before = broker.image.topics["orders"]
    rows = list(before.partitions)
    rows[7] = replace(rows[7], leader=2, leader_epoch=1)
    broker.set_topics(replace(before, partitions=tuple(rows)))
    assert applied == [7]
    assert not broker.partition(TopicPartition("orders", 7)).is_leader


def test_only_fetches_of_the_changed_partition_are_checked(broker: Harness) -> None:
    fetched = broker.fetch((TopicPartition("orders", 8), 0))
    (operation,) = broker.fetch_purgatory.operations()
    checks_before = operation.checks
    before = broker.image.topics["orders"]
    rows = list(before.partitions)
    rows[7] = replace(rows[7], leader=2, leader_epoch=1)
    broker.set_topics(replace(before, partitions=tuple(rows)))
    assert broker.fetch_purgatory.operations()[0].checks == checks_before
    assert not fetched.answered


def test_added_partitions_are_the_only_ones_that_are_applied(broker: Harness, applied: list[int]) -> None:
    before = broker.image.topics["orders"]
    broker.set_topics(replace(before, partitions=(*before.partitions, replace(before.partitions[0]))))
    assert applied == [PARTITIONS]


def test_a_changed_config_reaches_every_partition(broker: Harness) -> None:
    before = broker.image.topics["orders"]
    broker.set_topics(replace(before, configs={"retention.ms": "1"}))
    assert {partition.log.config.retention_ms for partition in broker.replicas.partitions.values()} == {1}


def test_a_topic_that_was_created_anew_is_applied_wholly(broker: Harness, applied: list[int]) -> None:
    """Its rows may be the same objects; its records are others."""
    before = broker.image.topics["orders"]
    broker.produce(TopicPartition("orders", 3), acks=1)
    broker.set_topics(replace(before, topic_id=b"other".ljust(16)))
    assert applied == list(range(PARTITIONS))
    assert broker.partition(TopicPartition("orders", 3)).log.log_end_offset == 0
