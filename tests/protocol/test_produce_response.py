"""The short way to encode the usual answer to Produce makes the bytes that the encoder makes."""

from __future__ import annotations

import pytest

from purgatorio.protocol.api import APIS, EncodedResponse, encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
    encode_one_appended,
)

LARGEST = 2**63 - 1


@pytest.mark.parametrize("version", APIS[ApiKey.PRODUCE].versions)
@pytest.mark.parametrize("topic", ["t", "ä" * 63, "t" * 126])
@pytest.mark.parametrize("numbers", [(0, 0, -1, 0), (2**31 - 1, LARGEST, LARGEST, LARGEST), (7, 300, -1, 299)])
def test_the_short_way_makes_the_same_bytes_or_none(
    version: int, topic: str, numbers: tuple[int, int, int, int]
) -> None:
    index, base_offset, log_append_time_ms, log_start_offset = numbers
    partition = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    topic_id = bytes(range(16))
    topics = [TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[partition])]
    response = ProduceResponse(responses=topics)
    short = encode_one_appended(version, topic, topic_id, *numbers)
    assert (short is None) == (version < 9)
    if short is not None:
        answers = [encode_response(ApiKey.PRODUCE, version, 7, each) for each in (EncodedResponse(short), response)]
        assert answers[0] == answers[1]


def test_a_long_name_takes_the_encoder() -> None:
    assert encode_one_appended(12, "t" * 127, bytes(16), 0, 0, -1, 0) is None
    assert encode_one_appended(13, "t" * 127, bytes(16), 0, 0, -1, 0) is not None
