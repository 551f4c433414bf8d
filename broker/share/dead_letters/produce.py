"""The request with which dead letters go to the leader of their topic's partition."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION: Final = 12
"""The version of the requests."""


def produce_request(tp: TopicPartition, batch: bytes, timeout_ms: int) -> ProduceRequest:
    """Return the request to append a batch with acks=all."""
    partition = PartitionProduceData(index=tp.partition, records=batch)
    topic = TopicProduceData(name=tp.topic, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic])


def result_of(response: Any, error: Exception | None) -> tuple[ErrorCode, str]:
    """Return what came of the request, and why, as far as that is told: NETWORK_EXCEPTION if there is no answer."""
    if response is None:
        return ErrorCode.NETWORK_EXCEPTION, "no answer" if error is None else str(error) or type(error).__name__
    results = [partition for topic in response.responses for partition in topic.partition_responses]
    if len(results) != 1:
        return ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer is about {len(results)} partitions"
    return ErrorCode.known(results[0].error_code), results[0].error_message or ""
