"""Partitions that move to other replicas."""

from __future__ import annotations

import pytest

from purgatorio.broker.metadata.controller import (
    ElectionType,
    MorePartitions,
    Reassignment,
    alter_topic_configs,
    create_partitions,
    preferred_elections,
    reassign_partitions,
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


def test_a_partition_that_moves_has_both_until_the_new_replicas_are_in_sync(five: ClusterImage) -> None:
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


def test_a_move_can_be_called_off_and_changed(five: ClusterImage) -> None:
    assert move(five)[1] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    image, _ = move(five, 4, 5, 3)
    image, _ = move(image, 5, 2, 3)
    assert (partition(image).adding, partition(image).removing) == ((5,), (1,))
    image, code = move(image)
    state = partition(image)
    assert code is ErrorCode.NONE
    assert (set(state.replicas), state.adding, state.removing, state.leader) == ({1, 2, 3}, (), (), 1)


def test_a_replica_that_goes_starts_a_leader_epoch_so_that_it_cannot_be_mistaken_when_it_comes_back(
    five: ClusterImage,
) -> None:
    image, _ = move(five, 1, 2)
    state = partition(image)
    assert (state.replicas, state.leader, state.leader_epoch) == ((1, 2), 1, 1)
    image, _ = move(image, 1, 2, 3)
    assert (partition(image).adding, partition(image).leader_epoch) == ((3,), 1), "one that comes does not"


def test_another_order_of_the_same_replicas_is_done_at_once(five: ClusterImage) -> None:
    image, _ = move(five, 3, 1, 2)
    state = partition(image)
    assert (state.replicas, state.adding, state.removing, state.leader) == ((3, 1, 2), (), (), 1)
    assert state.isr_ids == (3, 1, 2)


@pytest.mark.parametrize("replicas", [(1, 9), (1, 1), (1,)], ids=["unknown", "twice", "fewer than min.insync.replicas"])
def test_a_move_that_cannot_be_is_refused_and_changes_nothing(five: ClusterImage, replicas: tuple[int, ...]) -> None:
    assert move(five, *replicas) == (five, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_kip_860_another_number_of_replicas_is_refused_if_the_client_insists(five: ClusterImage) -> None:
    image, (result,) = reassign_partitions(
        five, [Reassignment(*TP, (1, 2))], settings=SETTINGS, allow_replication_factor_change=False
    )
    assert (image, result.error) == (five, ErrorCode.INVALID_REPLICATION_FACTOR)


def test_a_replica_that_goes_starts_a_leader_epoch_so_that_nothing_it_asked_before_counts_when_it_comes_back(
    five: ClusterImage,
) -> None:
    image, _ = move(five, 1, 2, 4)
    assert partition(image).leader_epoch == 0, "4 came, nobody went"
    image, _ = move(image)
    state = partition(image)
    assert (state.replicas, state.leader, state.leader_epoch) == ((1, 2, 3), 1, 1)


def test_a_move_is_done_at_once_if_the_replicas_that_stay_are_in_sync(five: ClusterImage) -> None:
    image, code = move(five, 2, 3)
    state = partition(image)
    assert code is ErrorCode.NONE
    assert (state.replicas, state.isr_ids, state.adding, state.removing) == ((2, 3), (2, 3), (), ())
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 1, 1)


def half_moved(five: ClusterImage) -> ClusterImage:
    """From 1, 2 and 3 to 4, 5 and 3; only 4, which was added, is still in sync: the others have restarted."""
    image, _ = move(five, 4, 5, 3)
    image, _ = propose(image, 1, 2, 3, 4)
    for broker_id in (3, 2, 1):
        image = restart(fence(image, broker_id), broker_id)
    state = partition(image)
    assert (state.leader, state.isr_ids, state.elr) == (4, (4,), ())
    return image


def test_a_move_is_not_called_off_if_only_an_added_replica_has_the_records(five: ClusterImage) -> None:
    image = half_moved(five)
    assert move(image) == (image, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_a_move_is_not_changed_so_that_the_only_replica_that_has_the_records_goes(five: ClusterImage) -> None:
    image, _ = move(half_moved(five), 1, 2, 3)
    assert partition(image).isr_ids == (4,)


def test_a_move_is_not_called_off_while_the_only_eligible_replica_is_an_added_one(five: ClusterImage) -> None:
    image = fence(half_moved(five), 4)
    assert partition(image).elr_ids == (4,)
    image, code = move(image)
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert partition(image).elr_ids == (4,)


def test_a_replica_that_is_just_being_added_is_neither_preferred_nor_the_first_to_be_elected_uncleanly(
    five: ClusterImage,
) -> None:
    image, _ = move(five, 4, 2, 3)
    assert (partition(image).replicas, partition(image).preferred_leader) == ((4, 2, 3, 1), 2)
    image, _ = propose(image, 1, 3, 4)
    assert preferred_elections(image, 4) == []
    for broker_id in (1, 3, 4, 2):
        image = restart(fence(image, broker_id), broker_id)
    image, code = elect(image, ElectionType.UNCLEAN)
    assert (code, partition(image).leader) == (ErrorCode.NONE, 2)


def test_while_a_partition_moves_only_the_replicas_that_last_count(five: ClusterImage) -> None:
    image, _ = move(five, 4, 5, 3)
    assert len(partition(image).replicas) == 5
    _, result = alter_topic_configs(image, "orders", {"min.insync.replicas": "4"}, settings=SETTINGS)
    assert result.error is ErrorCode.INVALID_CONFIG
    image, (grown,) = create_partitions(image, [MorePartitions("orders", 2)], settings=SETTINGS)
    assert grown.topic is not None
    assert len(grown.topic.partitions[1].replicas) == 3


def test_a_partition_that_is_named_twice_is_refused_the_second_time_even_if_nothing_changed(five: ClusterImage) -> None:
    twice = [Reassignment(*TP, (1, 2, 3))] * 2
    image, results = reassign_partitions(five, twice, settings=SETTINGS)
    assert image is five
    assert [result.error for result in results] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
