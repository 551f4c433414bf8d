"""A reader gets the records from its offset on, without those of aborted transactions."""

from __future__ import annotations

import pytest

from purgatorio.client.client import Refused
from purgatorio.client.fetch import LATEST, fetch, list_offset, read
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from purgatorio.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.client.brokers import TP, Brokers, Patient


def batch(*offsets: int, producer_id: int = -1) -> bytes:
    return build_batch(
        [Record(each, 0, None, b"%d" % each) for each in offsets],
        base_offset=offsets[0],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=offsets[0] if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    end = EndMarker(committed, 0)
    return build_end_marker(end, producer_id=producer_id, producer_epoch=0, timestamp_ms=0, base_offset=offset)


LOG = b"".join(
    [
        batch(0, 1, producer_id=1),
        batch(2),
        marker(3, 1, committed=False),
        batch(4, producer_id=1),
        marker(5, 1, committed=True),
    ]
)


@pytest.mark.parametrize(
    ("aborted", "offset", "expected"),
    [
        (None, 0, [0, 1, 2, 4]),
        ([AbortedTransaction(producer_id=1, first_offset=0)], 0, [2, 4]),
        (None, 1, [1, 2, 4]),
    ],
)
def test_records_are_those_from_an_offset_on_that_were_not_aborted(
    aborted: list[AbortedTransaction] | None, offset: int, expected: list[int]
) -> None:
    data = PartitionData(partition_index=0, aborted_transactions=aborted, records=LOG)
    records, next_offset = read(data, offset)
    assert ([each.offset for each in records], next_offset) == (expected, 6)


def test_an_answer_without_a_whole_batch_leaves_the_offset() -> None:
    assert read(PartitionData(partition_index=0, records=LOG[:20]), 7) == ([], 7)
    assert read(PartitionData(partition_index=0, records=b""), 7) == ([], 7)


async def test_a_fetch_asks_for_one_partition_and_gives_its_data_with_the_error() -> None:
    brokers = Brokers()
    client = Patient(brokers)
    data = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=b"")
    brokers.set(FetchRequest, FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])]))
    leader = await client.leader(TP)
    assert await fetch(client, leader.broker_id, TP, 3, max_wait_ms=10) is data


async def test_an_offset_is_returned_or_refused_with_its_code() -> None:
    brokers = Brokers()
    client = Patient(brokers)

    def answer(offset: int, code: ErrorCode) -> ListOffsetsResponse:
        each = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=code)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[each])])

    brokers.set(ListOffsetsRequest, answer(9, ErrorCode.NONE), answer(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    leader = await client.leader(TP)
    assert await list_offset(client, leader.broker_id, TP, LATEST) == 9
    with pytest.raises(Refused) as refused:
        await list_offset(client, leader.broker_id, TP, LATEST)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
