"""The request to the leader of a dead-letter topic, and its answer."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.coordinator.broker_calls import Answer
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.dead_letters.queue import PRODUCE_VERSION, produce_request, result_of
from purgatorio.protocol.api import decode_request, decode_request_header, encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.broker.replica.harness import batch


def test_the_request_is_one_batch_with_acks_all() -> None:
    records = batch(b"a", b"b")
    request = produce_request(TopicPartition("dlq.jobs", 2), records, 5_000)
    sent = b"".join(encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "test", request))
    header, position = decode_request_header(sent[4:])
    read: Any = decode_request(header, sent[4:], position)
    assert (read.acks, read.timeout_ms, read.transactional_id) == (-1, 5_000, None)
    ((data,),) = [each.partition_data for each in read.topic_data]
    assert (read.topic_data[0].name, data.index, bytes(data.records)) == ("dlq.jobs", 2, records)


def answer(*codes: ErrorCode, message: str | None = None) -> ProduceResponse:
    partitions = [PartitionProduceResponse(index=0, error_code=code, error_message=message) for code in codes]
    return ProduceResponse(responses=[TopicProduceResponse(name="dlq.jobs", partition_responses=partitions)])


@pytest.mark.parametrize(
    ("response", "result"),
    [
        (answer(ErrorCode.NONE), Answer()),
        (answer(ErrorCode.INVALID_RECORD, message="No key."), Answer(ErrorCode.INVALID_RECORD, "No key.")),
        (ProduceResponse(), Answer(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer is about 0 partitions")),
    ],
)
def test_what_came_of_it(response: ProduceResponse, result: Answer) -> None:
    assert result_of(response) == result
