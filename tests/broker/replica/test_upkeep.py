"""Periodic work looks at many replicas in a turn, and ends it where there was something to do."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.replica_manager import LOOK_COST
from purgatorio.broker.time.long_work import SLICE, take_slice
from tests.broker.replica.harness import Harness, topic
from tests.broker.time.by_hand import turns_of

STEPS = 3
PER_TURN = SLICE // LOOK_COST
PARTITIONS = STEPS * PER_TURN + 1


@pytest.fixture
def broker() -> Harness:
    harness = Harness()
    harness.set_topics(topic(partitions=PARTITIONS, segment_bytes="100", retention_bytes="0"))
    while not harness.replicas.is_current:
        harness.replicas.apply_more()
    return harness


def test_replicas_without_work_share_steps(broker: Harness) -> None:
    replicas = broker.replicas
    for steps in (replicas.retention_steps(), replicas.compaction_steps(), replicas.laggard_steps(1)):
        assert turns_of(steps) == STEPS


def test_a_log_that_loses_records_ends_a_step(broker: Harness) -> None:
    for index in (3, 5):
        orders = TopicPartition("orders", index)
        for _ in range(2):
            broker.produce(orders, acks=1)
        broker.follow((2, 2), (3, 2), tp=orders)
    assert turns_of(broker.replicas.retention_steps()) == 2 + STEPS - 1
    assert broker.partition(TopicPartition("orders", 5)).log.log_start_offset > 0


def test_a_replica_that_is_removed_between_steps_is_left_alone(broker: Harness) -> None:
    last = TopicPartition("orders", PARTITIONS - 1)
    steps = broker.replicas.laggard_steps(1)
    broker.produce(last, acks=1)
    broker.clock.advance_ms(100)
    take_slice(steps)
    del broker.replicas.partitions[last]
    assert turns_of(steps) == STEPS - 1
    assert last not in [partition.tp for partition, _ in broker.proposals]


def test_followers_that_lag_are_found_in_any_step(broker: Harness) -> None:
    lagging = [TopicPartition("orders", index) for index in (0, PARTITIONS - 1)]
    for tp in lagging:
        broker.produce(tp, acks=1)
        broker.follow((2, 1), (3, 0), tp=tp)
    broker.clock.advance_ms(100)
    for tp in lagging:
        broker.follow((2, 1), tp=tp)
    assert turns_of(broker.replicas.laggard_steps(50)) == STEPS
    proposed = [(partition.tp, [m.broker_id for m in proposal.isr]) for partition, proposal in broker.proposals]
    assert [(tp, isr) for tp, isr in proposed if tp in lagging] == [(tp, [1, 2]) for tp in lagging]
