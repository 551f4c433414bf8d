"""Long arrays of int64 structs: encoded as if each element were an object."""

from __future__ import annotations

from array import array

import pytest

from purgatorio.protocol.api import decode_response, encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.columns import Columns
from purgatorio.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

PRODUCER_IDS = [7, 0, -1, 2**63 - 1, -(2**63), 0x0102_0304_0506_0708]


def columns(count: int) -> Columns[AbortedTransaction]:
    producer_ids = (PRODUCER_IDS * count)[:count]
    return Columns(
        AbortedTransaction, producer_id=array("q", producer_ids), first_offset=array("q", range(1000, 1000 + count))
    )


@pytest.mark.parametrize("version", [4, 11, 12, 17])
@pytest.mark.parametrize("count", [0, 1, 6, 126, 127, 128, 300])
def test_columns_are_encoded_as_their_elements_are(version: int, count: int) -> None:
    def frame(aborted: Columns[AbortedTransaction] | list[AbortedTransaction]) -> bytes:
        data = PartitionData(partition_index=3, high_watermark=9, aborted_transactions=aborted, records=[b"batch"])
        topic = FetchableTopicResponse(topic="orders" if version < 13 else "", partitions=[data])
        return b"".join(encode_response(ApiKey.FETCH, version, 1, FetchResponse(responses=[topic])))

    assert frame(columns(count)) == frame(list(columns(count)))
    decoded = decode_response(ApiKey.FETCH, version, frame(columns(count))[4:])[1]
    assert isinstance(decoded, FetchResponse)
    assert decoded.responses[0].partitions[0].aborted_transactions == list(columns(count))


def test_columns_are_a_sequence() -> None:
    made = columns(4)
    assert made[1] == AbortedTransaction(producer_id=0, first_offset=1001)
    assert made[-2:] == [made[2], made[3]]
    assert len(made) == 4
