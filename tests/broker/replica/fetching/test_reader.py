"""Fetching from followers and preferred read replicas (KIP-392)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from purgatorio.broker.metadata.image import BrokerIncarnation
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchParams, PartitionFetch
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FetchPartition
from tests.broker.replica.harness import ORDERS, Fetched, Harness, batch, topic


def read(
    broker: Harness,
    *,
    rack: str = "b",
    offset: int = 0,
    knows_followers: bool = True,
    min_bytes: int = 1,
    leader_epoch: int = -1,
) -> Fetched:
    partition = FetchPartition(
        partition=0, fetch_offset=offset, current_leader_epoch=leader_epoch, partition_max_bytes=10_000
    )
    params = FetchParams(-1, 500, 1, 10_000, rack_id=rack, may_read_followers=knows_followers)
    fetches = [PartitionFetch(ORDERS, None, partition)]
    return broker.send(FetchContext(params, fetches), fetches)


@pytest.fixture
def broker() -> Harness:
    """Brokers 1, 2 and 3 in racks a, b and c; broker 1 leads, and all have one record."""
    harness = Harness()
    harness.brokers = {i: replace(b, rack="abc"[i - 1]) for i, b in harness.brokers.items()}
    harness.set_topics(topic())
    produced = harness.produce()
    harness.follow((2, 1), (3, 1))
    assert produced.error_codes == [ErrorCode.NONE]
    return harness


def test_a_consumer_is_sent_to_the_in_sync_follower_in_its_rack_at_once_without_records(broker: Harness) -> None:
    data = read(broker).data
    assert (data.preferred_read_replica, data.error_code, list(data.records or [])) == (2, ErrorCode.NONE, [])


@pytest.mark.parametrize("rack", ["a", "", "elsewhere"])
def test_a_consumer_in_the_leaders_rack_or_an_unknown_one_reads_from_the_leader(broker: Harness, rack: str) -> None:
    data = read(broker, rack=rack).data
    assert data.preferred_read_replica == -1
    assert len(data.records or []) == 1


def test_any_negative_leader_epoch_of_a_fetch_is_none(broker: Harness) -> None:
    """As in Kafka, whose other requests have -1 for that and nothing else."""
    assert read(broker, rack="a", leader_epoch=-2).data.error_code == ErrorCode.NONE


def test_a_follower_that_does_not_have_the_offset_yet_is_not_preferred(broker: Harness) -> None:
    broker.produce(acks=1)
    assert read(broker, offset=2).answered is False
    broker.follow((2, 2))
    assert read(broker, offset=2).data.preferred_read_replica == 2


def test_a_follower_that_is_not_in_sync_is_not_preferred(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1, 3), partition_epoch=1))
    assert read(broker).data.preferred_read_replica == -1


@pytest.fixture
def follower() -> Harness:
    """Broker 1, which follows broker 2; it has two records, and one of them is committed."""
    harness = Harness()
    harness.set_topics(topic(leader=2))
    partition = harness.partition()
    source = Harness()
    source.set_topics(topic(replicas=(1,)))
    for _ in range(2):
        source.produce(acks=1, records=batch(b"value"))
    records = b"".join(source.partition().log.read(0, max_bytes=10_000, end_offset=2).parts)
    harness.replicas.append_as_follower(partition, records, 1, 0)
    return harness


def test_a_follower_serves_committed_records_and_completes_fetches_when_more_are_committed(follower: Harness) -> None:
    assert len(read(follower).data.records or []) == 1
    waiting = read(follower, offset=1)
    assert not waiting.answered
    follower.replicas.append_as_follower(follower.partition(), b"", 2, 0)
    assert len(waiting.data.records or []) == 1


def test_a_consumer_that_cannot_read_from_followers_is_sent_to_the_leader(follower: Harness) -> None:
    assert read(follower, knows_followers=False).data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_without_a_lease_or_a_leader_refuses_consumers(follower: Harness) -> None:
    follower.may_lead = False
    assert read(follower).data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    follower.may_lead = True
    follower.set_topics(topic(leader=-1, leader_epoch=1, partition_epoch=1))
    assert read(follower).data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_followers_parked_fetch_is_answered_with_a_new_high_watermark_if_consumers_may_read_from_it(
    broker: Harness,
) -> None:
    (waiting,) = broker.follow((3, 1))
    broker.produce(acks=1)
    assert waiting.answered, "there is a record"
    (waiting,) = broker.follow((3, 2))
    assert not waiting.answered
    broker.follow((2, 2))
    assert waiting.data.high_watermark == 2
    assert broker.partition().followers[3].broker_epoch == BrokerIncarnation(3, 3).broker_epoch


def test_a_consumers_fetch_that_waits_at_a_follower_is_answered_when_its_offset_is_deleted(follower: Harness) -> None:
    waiting = read(follower, offset=1)
    assert not waiting.answered
    follower.replicas.append_as_follower(follower.partition(), b"", 1, 2)
    assert waiting.data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_leader_whose_lease_expired_does_not_name_itself_as_the_current_leader(broker: Harness) -> None:
    broker.may_lead = False
    data = read(broker).data
    assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    (result,) = broker.produce().results
    assert (result.error_code, result.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_consumer_with_a_rack_is_sent_back_to_the_leader_for_an_offset_that_a_lagging_follower_lacks(
    follower: Harness,
) -> None:
    assert read(follower, offset=40).data.error_code == ErrorCode.OFFSET_NOT_AVAILABLE


def test_a_consumer_without_a_rack_learns_the_leader_from_a_follower_that_lacks_its_offset(follower: Harness) -> None:
    data = read(follower, offset=40, rack="").data
    assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


def test_a_follower_that_came_back_empty_never_calls_an_offset_out_of_range() -> None:
    empty = Harness()
    empty.set_topics(topic(leader=2))
    assert read(empty, offset=1).data.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert read(empty, offset=1, rack="").data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_that_waits_at_a_follower_whose_log_is_truncated_is_not_out_of_range(follower: Harness) -> None:
    waiting = read(follower, offset=2)
    assert not waiting.answered
    follower.partition().truncate_to(0)
    follower.set_topics(topic(leader=3, leader_epoch=1, partition_epoch=1))
    assert waiting.data.error_code == ErrorCode.OFFSET_NOT_AVAILABLE


def test_the_leader_calls_an_offset_beyond_its_end_out_of_range(broker: Harness) -> None:
    assert read(broker, offset=40, rack="a").data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
