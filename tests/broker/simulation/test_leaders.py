"""The history names each leader and leader epoch that the metadata store commits."""

from __future__ import annotations

import pytest

from purgatorio.broker.simulation.history import LeaderElected
from purgatorio.broker.simulation.run import Scenario, simulate


@pytest.mark.simulation
def test_every_leader_epoch_of_a_partition_is_recorded_once_and_in_order() -> None:
    history = simulate(3, Scenario(seconds=3.0, partitions=1, swarm=False, faults=("chase-leader",))).history
    elected = list(history.of(LeaderElected))
    assert [event.leader_epoch for event in elected] == list(range(len(elected)))
    assert len(elected) > 2
    assert {event.partition for event in elected} == {"orders-0"}
    assert {event.broker for event in elected} <= {-1, 1, 2, 3}
    assert len({event.broker for event in elected}) > 1
