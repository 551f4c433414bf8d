"""DeleteRecords (key 21): give up everything before an offset (KIP-107).

Versions 0–2. Only a partition's leader answers, and only for what is committed; it answers when every in-sync replica
has deleted it, or after `timeout_ms`.
"""

from __future__ import annotations

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(replicas: ReplicaManager, ctx: RequestContext, request: DeleteRecordsRequest, reply: Reply) -> None:
    """Delete, and answer now or when the followers have followed."""
    response = _blank_response(request, ErrorCode.NONE)
    deletions = [
        (TopicPartition(topic.name, partition.partition_index), partition.offset, result)
        for topic, answers in zip(request.topics, response.topics, strict=True)
        for partition, result in zip(topic.partitions, answers.partitions, strict=True)
    ]
    replicas.delete_records(
        deletions, timeout_ms=request.timeout_ms, answer=lambda: reply(response), client=ctx.client_id or ""
    )


def _blank_response(request: DeleteRecordsRequest, error_code: ErrorCode) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index, low_watermark=-1, error_code=error_code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def error_response(request: DeleteRecordsRequest, error_code: ErrorCode) -> DeleteRecordsResponse:
    """Every partition answered with `error_code`."""
    return _blank_response(request, error_code)
