"""The cache of share partitions: which are dropped, and when."""

from __future__ import annotations

import pytest

from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.share.share_partition import SharePartitionState
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from tests.broker.replica.harness import topic
from tests.broker.share.fetching import ShareHarness


@pytest.fixture
def house() -> ShareHarness:
    return ShareHarness(partitions=2)


def test_each_is_made_once(house: ShareHarness) -> None:
    shares, replica = house.shares.partitions, house.partition()
    share = shares.of(house.key(), replica)
    assert shares.of(house.key(), replica) is share
    assert (len(shares), shares.known(house.key()), shares.known(house.key(1))) == (1, share, None)
    assert list(shares) == shares.of_group("jobs") == [share]


def test_another_leader_epoch_has_another_one(house: ShareHarness) -> None:
    share = house.shares.partitions.of(house.key(), house.partition())
    house.set_topics(topic(partitions=2, replicas=(1,), leader_epoch=1, partition_epoch=1))
    assert share.state is SharePartitionState.FENCED
    again = house.shares.partitions.of(house.key(), house.partition())
    assert (again is not share, again.leader_epoch) == (True, 1)


def test_one_whose_state_has_another_leader_is_forgotten(house: ShareHarness) -> None:
    shares = house.shares.partitions
    share = shares.of(house.key(), house.partition())
    share.fence(ErrorCode.FENCED_LEADER_EPOCH)
    assert len(shares) == 0
    assert shares.of(house.key(), house.partition()) is not share


def test_one_that_failed_is_told_once_and_then_tried_again(house: ShareHarness) -> None:
    house.persister.error = ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(PartitionError) as failure:
        house.shares.partitions.of(house.key(), house.partition())
    assert (failure.value.error_code, len(house.shares.partitions)) == (ErrorCode.GROUP_ID_NOT_FOUND, 0)
    house.persister.error = ErrorCode.NONE
    assert house.shares.partitions.of(house.key(), house.partition()).state is SharePartitionState.ACTIVE


def test_a_share_partition_is_dropped_once_and_alone(house: ShareHarness) -> None:
    shares, replica = house.shares.partitions, house.partition()
    share = shares.of(house.key(), replica)
    other = shares.of(SharePartitionKey("mail", house.key().topic_id, 0), replica)
    shares.drop(share)
    again = shares.of(house.key(), replica)
    shares.drop(share)
    assert list(shares) == [other, again]
