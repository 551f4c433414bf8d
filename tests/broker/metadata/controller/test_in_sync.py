"""A leader's proposals of an ISR, and the decisions about them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from purgatorio.broker.metadata.controller import (
    InSyncProposal,
    NewTopic,
    change_in_sync_sets,
    create_topics,
)
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage
from purgatorio.protocol.errors import ErrorCode
from tests.broker.metadata.controller.harness import SETTINGS, TP, fence, partition, propose, restart


def propose_with(image: ClusterImage, **change: object) -> ErrorCode:
    """Return the error code for a valid proposal with this change; a refused proposal leaves the image unchanged."""
    state = partition(image)
    leader = change.pop("proposer", image.brokers[1].incarnation)
    incarnations = tuple(image.brokers[broker_id].incarnation for broker_id in (1, 2))
    right = InSyncProposal(
        image.topics["orders"].topic_id, *TP, state.leader_epoch, state.partition_epoch, incarnations
    )
    assert isinstance(leader, BrokerIncarnation)
    after, (code,) = change_in_sync_sets(image, leader, [replace(right, **change)], settings=SETTINGS)  # type: ignore[arg-type]
    assert code is ErrorCode.NONE or after is image
    return code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"proposer": BrokerIncarnation(1, 99)}, ErrorCode.STALE_BROKER_EPOCH),
        ({"proposer": BrokerIncarnation(2, 2)}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"topic_id": b"?" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 5}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 5}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"isr": ()}, ErrorCode.INVALID_REQUEST),
        ({"isr": (BrokerIncarnation(1, 1), BrokerIncarnation(9, 9))}, ErrorCode.INVALID_REQUEST),
        ({"isr": (BrokerIncarnation(1, 1), BrokerIncarnation(2, 99))}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_is_accepted_only_if_all_its_assumptions_hold(
    orders: ClusterImage, change: dict[str, object], code: ErrorCode
) -> None:
    assert propose_with(orders, **change) is code


def test_a_fenced_replica_does_not_join_and_a_fenced_leader_changes_nothing(orders: ClusterImage) -> None:
    assert propose_with(fence(orders, 2)) is ErrorCode.INELIGIBLE_REPLICA
    assert propose_with(fence(orders, 1)) is ErrorCode.STALE_BROKER_EPOCH


def test_each_proposal_is_decided_on_its_own(three: ClusterImage) -> None:
    new = NewTopic("orders", assignments=[(0, (1, 2, 3)), (1, (1, 2, 3)), (2, (2, 3, 1))])
    image, _ = create_topics(three, [new], settings=SETTINGS, rng=random.Random(1))
    topic, leader = image.topics["orders"], image.brokers[1].incarnation
    proposals = [InSyncProposal(topic.topic_id, "orders", index, 0, 0, (leader,)) for index in range(3)]
    image, codes = change_in_sync_sets(image, leader, proposals, settings=SETTINGS)
    assert codes == (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH)
    assert [state.isr_ids for state in image.topics["orders"].partitions] == [(1,), (1,), (2, 3, 1)]


def test_a_change_of_the_isr_starts_no_leader_epoch(orders: ClusterImage) -> None:
    image, _ = propose(orders, 1, 2)
    assert (partition(image).leader_epoch, partition(image).partition_epoch) == (0, 1)


def test_a_proposal_of_the_present_isr_changes_nothing(orders: ClusterImage) -> None:
    assert propose(orders, 3, 2, 1) == (orders, ErrorCode.NONE)
    assert propose(orders, 1, 2, 3)[0] is orders


def test_a_removed_replica_stays_eligible_only_if_the_isr_becomes_too_small(orders: ClusterImage) -> None:
    image, _ = propose(orders, 1, 3)
    assert partition(image).elr == ()
    image, _ = propose(image, 1)
    assert partition(image).elr_ids == (3,)


def test_kip_903_the_next_incarnation_of_an_in_sync_replica_is_not_in_sync_until_the_leader_proposes_it(
    orders: ClusterImage,
) -> None:
    image = restart(fence(orders, 2), 2)
    assert partition(image).isr_ids == (1, 3)
    image, code = propose(image, 1, 2, 3)
    assert code is ErrorCode.NONE
    assert image.brokers[2].incarnation in partition(image).isr
