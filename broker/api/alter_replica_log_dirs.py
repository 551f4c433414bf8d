"""AlterReplicaLogDirs (key 34): move replicas between log directories (KIP-113). Versions 1–2.

Logs live in memory, the one log directory, so that a replica can only move to where it is. Clients send the request to
the broker that it is about: kafka-reassign-partitions, when its plan names directories.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from purgatorio.broker.api.describe_log_dirs import LOG_DIR
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(replicas: ReplicaManager, ctx: RequestContext, request: AlterReplicaLogDirsRequest, reply: Reply) -> None:
    """Accept that replicas stay where they are; refuse any other directory with LOG_DIR_NOT_FOUND."""
    reply(_response(request, partial(_code, replicas)))


def _code(replicas: ReplicaManager, path: str, tp: TopicPartition) -> ErrorCode:
    """Return the error code of the move of one replica to a directory."""
    if path != LOG_DIR:
        return ErrorCode.LOG_DIR_NOT_FOUND
    return ErrorCode.NONE if replicas.lookup.known(tp) is not None else replicas.lookup.why_absent(tp)


def _response(
    request: AlterReplicaLogDirsRequest, code: Callable[[str, TopicPartition], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    """Return one result for each replica of the request; for one that is named twice, that of the last directory."""
    topics: dict[str, dict[int, ErrorCode]] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            results = topics.setdefault(topic.name, {})
            for index in topic.partitions:
                results[index] = code(log_dir.path, TopicPartition(topic.name, index))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error_code)
                    for index, error_code in results.items()
                ],
            )
            for name, results in topics.items()
        ]
    )


def error_response(request: AlterReplicaLogDirsRequest, error_code: ErrorCode) -> AlterReplicaLogDirsResponse:
    """Return the response with `error_code` for every replica."""
    return _response(request, lambda path, tp: error_code)


API: Final = ApiHandler(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    min_version=1,
    max_version=2,
    needs=cluster(AclOperation.ALTER),
    bind=lambda services: partial(handle, services.replicas),
    error_response=error_response,
)
