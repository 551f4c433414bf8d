"""Tests of the placement of replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.metadata.controller.placement import check_assignment, new_partition, place_replicas
from purgatorio.broker.metadata.controller.result import DecisionRefused
from purgatorio.broker.metadata.image import BrokerRegistration, ClusterImage
from purgatorio.protocol.errors import ErrorCode
from tests.endpoints import plaintext


def brokers(ids: Iterable[int], racks: list[str] | None = None) -> dict[int, BrokerRegistration]:
    return {
        broker_id: BrokerRegistration(broker_id, 1, plaintext("h", 9000), racks[place] if racks else None)
        for place, broker_id in enumerate(ids)
    }


def spread(counts: Counter[int], ids: Iterable[int]) -> int:
    """Return the difference between the highest and the lowest count of a broker."""
    each = [counts[broker_id] for broker_id in ids]
    return max(each) - min(each)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Draw broker ids, a valid replication factor, and the first leader's place."""
    ids = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True))
    return ids, draw(st.integers(1, len(ids))), draw(st.integers(0, 100))


@given(clusters(), st.integers(0, 60))
def test_leaders_and_replicas_are_balanced_within_one_and_replicas_distinct(
    cluster: tuple[list[int], int, int], count: int
) -> None:
    ids, factor, start = cluster
    placed = place_replicas(brokers(ids), count, factor, start=start)
    assert len(placed) == count
    for replicas in placed:
        assert len(replicas) == factor
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(ids)
    assert spread(Counter(replicas[0] for replicas in placed), ids) <= 1
    assert spread(Counter(broker for replicas in placed for broker in replicas), ids) <= 1


@given(clusters(), st.integers(1, 30), st.integers(0, 30))
def test_added_partitions_are_placed_as_if_all_were_placed_at_once(
    cluster: tuple[list[int], int, int], before: int, added: int
) -> None:
    ids, factor, start = cluster
    at_once = place_replicas(brokers(ids), before + added, factor, start=start)
    first = place_replicas(brokers(ids), before, factor, start=start)
    assert first + place_replicas(brokers(ids), added, factor, start=start, existing=first) == at_once


@given(st.integers(2, 4), st.integers(1, 4), st.data())
def test_replicas_go_to_as_many_racks_as_there_are(rack_count: int, per_rack: int, data: st.DataObject) -> None:
    racks = [f"rack-{n % rack_count}" for n in range(rack_count * per_rack)]
    cluster = brokers(range(len(racks)), racks)
    factor = data.draw(st.integers(1, len(racks)))
    for replicas in place_replicas(cluster, 20, factor, start=0):
        used = Counter(cluster[broker].rack for broker in replicas)
        assert len(used) == min(factor, rack_count)
        assert max(used.values()) - min(used.values()) <= 1


def test_the_first_leader_is_at_the_start_place_of_the_ring() -> None:
    leaders = [place_replicas(brokers([5, 1, 3]), 1, 1, start=start)[0][0] for start in range(4)]
    assert leaders == [1, 3, 5, 1]


def test_a_brokers_partitions_do_not_all_have_the_same_second_replica() -> None:
    placed = place_replicas(brokers([1, 2, 3]), 6, 3, start=0)
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3}


def test_partitions_added_after_the_cluster_grew_go_to_the_new_broker() -> None:
    existing = [(1, 2), (2, 1)]
    added = place_replicas(brokers([1, 2, 3]), 1, 2, start=0, existing=existing)
    assert added[0][0] == 3


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(DecisionRefused) as caught:
        place_replicas(brokers([1, 2]), 1, 3, start=0)
    assert caught.value.error == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "3" in caught.value.message
    assert "2" in caught.value.message


def test_without_brokers_no_replica_can_be_placed() -> None:
    with pytest.raises(DecisionRefused):
        place_replicas({}, 1, 1, start=0)


@pytest.mark.parametrize("replicas", [[], [1, 1], [1, 9]], ids=["none", "twice", "unknown"])
def test_an_invalid_assignment_is_refused(replicas: list[int]) -> None:
    with pytest.raises(DecisionRefused) as caught:
        check_assignment(brokers([1, 2]), 4, replicas)
    assert caught.value.error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "partition 4" in caught.value.message


def test_a_new_partition_is_led_by_its_first_live_replica_and_all_live_ones_are_in_sync() -> None:
    registrations = {**brokers([1, 2, 3]), 1: BrokerRegistration(1, 7, plaintext("h", 1), fenced=True)}
    image = ClusterImage(0, "c", brokers=registrations)
    state = new_partition(image, (1, 2, 3))
    assert (state.leader, state.leader_epoch, state.replicas, state.isr_ids) == (2, 0, (1, 2, 3), (2, 3))
    with pytest.raises(DecisionRefused, match="available"):
        new_partition(image, (1,))
