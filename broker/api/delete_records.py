"""DeleteRecords (key 21): delete all records before an offset (KIP-107).

Versions 0–2. A partition's leader answers, when the low watermark has reached the offset or after `timeout_ms`. The
offset must not be above the high watermark. Internal topics are refused (INVALID_TOPIC_EXCEPTION), as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.broker.replica.delayed_delete_records import DeleteRecordsResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(replicas: ReplicaManager, ctx: RequestContext, request: DeleteRecordsRequest, reply: Reply) -> None:
    """Delete the records; answer when the followers have deleted them too."""
    deletions = [
        (TopicPartition(topic.name, partition.partition_index), partition.offset)
        for topic in request.topics
        if not is_internal(topic.name)
        for partition in topic.partitions
    ]

    def done(results: Sequence[DeleteRecordsResult]) -> None:
        reply(_response(request, _with_refused(request, results)))

    replicas.delete_records(deletions, timeout_ms=request.timeout_ms, done=done, client=ctx.client_id or "")


def _with_refused(
    request: DeleteRecordsRequest, results: Iterable[DeleteRecordsResult]
) -> Iterator[DeleteRecordsResult]:
    """Yield the results of all partitions; records of internal topics are not deleted."""
    remaining = iter(results)
    for topic in request.topics:
        for _ in topic.partitions:
            refused = DeleteRecordsResult(ErrorCode.INVALID_TOPIC_EXCEPTION)
            yield refused if is_internal(topic.name) else next(remaining)


def _response(request: DeleteRecordsRequest, results: Iterable[DeleteRecordsResult]) -> DeleteRecordsResponse:
    """Return the response; `results` are in the order of the request's partitions."""
    remaining = iter(results)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=result.low_watermark,
                        error_code=result.error_code,
                    )
                    for partition, result in zip(topic.partitions, remaining, strict=False)
                ],
            )
            for topic in request.topics
            if topic.partitions  # a topic without partitions is left out, as in Kafka
        ]
    )


API: Final = ApiHandler(
    key=ApiKey.DELETE_RECORDS,
    min_version=0,
    max_version=2,
    needs=EachOne(ApiKey.DELETE_RECORDS, AclOperation.DELETE, ResourceType.TOPIC),
    bind=lambda services: partial(handle, services.replicas),
)
