"""Reassignments of partitions to other replicas."""

from __future__ import annotations

import pytest

from purgatorio.broker.metadata.controller import (
    ElectionType,
    MorePartitions,
    PreferredElections,
    Reassignment,
    alter_topic_configs,
    create_partitions,
    reassign_partitions,
    replacing,
)
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode
from tests.broker.metadata.controller.harness import (
    SETTINGS,
    TP,
    elect,
    fence,
    move,
    partition,
    propose,
    restart,
    with_orders,
)


@pytest.fixture
def five(make_image: object) -> ClusterImage:
    return with_orders(make_image(1, 2, 3, 4, 5))  # type: ignore[operator]


def test_a_partition_has_old_and_new_replicas_until_the_new_ones_are_in_sync(five: ClusterImage) -> None:
    image, code = move(five, 4, 5, 3)
    state = partition(image)
    assert code is ErrorCode.NONE
    assert (state.replicas, state.adding, state.removing) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    assert (state.leader, state.isr_ids) == (1, (3, 1, 2))
    image, _ = propose(image, 1, 2, 3, 4)
    assert partition(image).adding == (4, 5)
    image, _ = propose(image, 1, 2, 3, 4, 5)
    state = partition(image)
    assert (state.replicas, state.adding, state.removing, state.isr_ids) == ((4, 5, 3), (), (), (4, 5, 3))
    assert (state.leader, state.leader_epoch) == (4, 1)


def test_a_reassignment_can_be_cancelled_and_changed(five: ClusterImage) -> None:
    assert move(five)[1] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    image, _ = move(five, 4, 5, 3)
    image, _ = move(image, 5, 2, 3)
    assert (partition(image).adding, partition(image).removing) == ((5,), (1,))
    image, code = move(image)
    state = partition(image)
    assert code is ErrorCode.NONE
    assert (set(state.replicas), state.adding, state.removing, state.leader) == ({1, 2, 3}, (), (), 1)


def test_removing_a_replica_starts_a_leader_epoch_and_adding_one_does_not(
    five: ClusterImage,
) -> None:
    image, _ = move(five, 1, 2)
    state = partition(image)
    assert (state.replicas, state.leader, state.leader_epoch) == ((1, 2), 1, 1)
    image, _ = move(image, 1, 2, 3)
    assert (partition(image).adding, partition(image).leader_epoch) == ((3,), 1), "adding starts no leader epoch"


def test_another_order_of_the_same_replicas_takes_effect_at_once(five: ClusterImage) -> None:
    image, _ = move(five, 3, 1, 2)
    state = partition(image)
    assert (state.replicas, state.adding, state.removing, state.leader) == ((3, 1, 2), (), (), 1)
    assert state.isr_ids == (3, 1, 2)


@pytest.mark.parametrize("replicas", [(1, 9), (1, 1), (1,)], ids=["unknown", "twice", "fewer than min.insync.replicas"])
def test_an_invalid_reassignment_is_refused_and_changes_nothing(five: ClusterImage, replicas: tuple[int, ...]) -> None:
    assert move(five, *replicas) == (five, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_a_topic_that_needs_more_in_sync_replicas_than_it_has_can_be_moved(five: ClusterImage) -> None:
    image, _ = alter_topic_configs(five, "orders", replacing({"min.insync.replicas": "4"}), settings=SETTINGS)
    _, code = move(image, 3, 4, 5)
    assert code is ErrorCode.NONE


def test_kip_860_another_replication_factor_is_refused_if_the_client_forbids_it(five: ClusterImage) -> None:
    image, (result,) = reassign_partitions(
        five, [Reassignment(*TP, (1, 2))], settings=SETTINGS, allow_replication_factor_change=False
    )
    assert (image, result.error) == (five, ErrorCode.INVALID_REPLICATION_FACTOR)


def test_cancelling_removes_the_added_replica_and_starts_a_leader_epoch_that_fences_its_earlier_fetches(
    five: ClusterImage,
) -> None:
    image, _ = move(five, 1, 2, 4)
    assert partition(image).leader_epoch == 0, "broker 4 was added, no replica removed"
    image, _ = move(image)
    state = partition(image)
    assert (state.replicas, state.leader, state.leader_epoch) == ((1, 2, 3), 1, 1)


def test_a_reassignment_completes_at_once_if_the_target_replicas_are_in_sync(five: ClusterImage) -> None:
    image, code = move(five, 2, 3)
    state = partition(image)
    assert code is ErrorCode.NONE
    assert (state.replicas, state.isr_ids, state.adding, state.removing) == ((2, 3), (2, 3), (), ())
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 1, 1)


def half_moved(five: ClusterImage) -> ClusterImage:
    """Start to move from 1, 2 and 3 to 4, 5 and 3; only 4, an added replica, is in sync, since the others restarted."""
    image, _ = move(five, 4, 5, 3)
    image, _ = propose(image, 1, 2, 3, 4)
    for broker_id in (3, 2, 1):
        image = restart(fence(image, broker_id), broker_id)
    state = partition(image)
    assert (state.leader, state.isr_ids, state.elr) == (4, (4,), ())
    return image


def test_a_reassignment_cannot_be_cancelled_if_only_an_added_replica_is_in_sync(five: ClusterImage) -> None:
    image = half_moved(five)
    assert move(image) == (image, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_a_changed_reassignment_keeps_the_only_in_sync_replica(five: ClusterImage) -> None:
    image, _ = move(half_moved(five), 1, 2, 3)
    assert partition(image).isr_ids == (4,)


def test_a_reassignment_cannot_be_cancelled_if_only_an_added_replica_is_eligible(five: ClusterImage) -> None:
    image = fence(half_moved(five), 4)
    assert partition(image).elr_ids == (4,)
    image, code = move(image)
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert partition(image).elr_ids == (4,)


def test_a_replica_that_is_being_added_is_not_preferred_and_is_the_last_choice_of_an_unclean_election(
    five: ClusterImage,
) -> None:
    image, _ = move(five, 4, 2, 3)
    assert (partition(image).replicas, partition(image).preferred_leader) == ((4, 2, 3, 1), 2)
    image, _ = propose(image, 1, 3, 4)
    assert PreferredElections(4).wanted(image) == []
    for broker_id in (1, 3, 4, 2):
        image = restart(fence(image, broker_id), broker_id)
    image, code = elect(image, ElectionType.UNCLEAN)
    assert (code, partition(image).leader) == (ErrorCode.NONE, 2)


def test_an_ongoing_reassignment_does_not_count_as_a_higher_replication_factor(five: ClusterImage) -> None:
    image, _ = move(five, 4, 5, 3)
    assert len(partition(image).replicas) == 5
    image, (grown,) = create_partitions(image, [MorePartitions("orders", 2)], settings=SETTINGS)
    assert grown.topic is not None
    assert len(grown.topic.partitions[1].replicas) == 3


def test_a_partition_that_is_named_twice_is_refused_the_second_time(
    five: ClusterImage,
) -> None:
    twice = [Reassignment(*TP, (1, 2, 3))] * 2
    image, results = reassign_partitions(five, twice, settings=SETTINGS)
    assert image is five
    assert [result.error for result in results] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
