"""The history names each leader and leader epoch that the metadata store commits."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.simulation.checks.invariants import record_leaders
from purgatorio.simulation.history.history import History, LeaderElected, TopicRecreated
from purgatorio.simulation.run import Scenario, simulate


@pytest.mark.simulation
def test_every_leader_epoch_of_a_partition_is_recorded_once_and_in_order() -> None:
    history = simulate(3, Scenario(seconds=3.0, partitions=1, swarm=False, faults=("chase-leader",))).history
    elected = list(history.of(LeaderElected))
    assert [event.leader_epoch for event in elected] == list(range(len(elected)))
    assert len(elected) > 2
    assert {event.partition for event in elected} == {"orders-0"}
    assert {event.broker for event in elected} <= {-1, 1, 2, 3}
    assert len({event.broker for event in elected}) > 1


def topic(topic_id: bytes, *epochs: int) -> ClusterImage:
    """Return an image of one topic."""
    states = tuple(PartitionState(1, epoch, (1,), (BrokerIncarnation(1, 1),)) for epoch in epochs)
    return ClusterImage(0, "test", topics={"orders": Topic("orders", topic_id, states)})


def test_only_a_topic_with_another_id_than_before_was_created_again() -> None:
    history, committed = History(), []
    clock = SimpleNamespace(now_ms=lambda: 7)
    cluster: Any = SimpleNamespace(clock=clock, store=SimpleNamespace(committed=committed))
    record_leaders(cluster, history)
    none = ClusterImage(0, "test")
    images = [none, topic(b"1" * 16, 0), topic(b"1" * 16, 0, 0), none, topic(b"2" * 16, 0, 0)]
    for before, after in itertools.pairwise(images):
        committed[0](before, after)
    assert list(history) == [
        LeaderElected(7, "orders-0", 1, 0),
        LeaderElected(7, "orders-1", 1, 0),
        TopicRecreated(7, "orders-0"),
        LeaderElected(7, "orders-0", 1, 0),
        TopicRecreated(7, "orders-1"),
        LeaderElected(7, "orders-1", 1, 0),
    ]
