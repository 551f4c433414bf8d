"""DescribeLogDirs (key 35): list this broker's replicas with their sizes (KIP-113, KIP-827).

Versions 1–5. Logs live in memory, so that there is one log directory, which is no path; its size is the memory cap of
all logs, and it is never cordoned (KIP-1066). Clients send the request to the broker that it is about: kafka-log-dirs,
kafka-reassign-partitions, most UIs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

LOG_DIR: Final = "memory"
"""The name of the one log directory."""


def handle(replicas: ReplicaManager, ctx: RequestContext, request: DescribeLogDirsRequest, reply: Reply) -> None:
    """Answer with the requested replicas that this broker has; others are left out, as in Kafka."""
    topics: dict[str, DescribeLogDirsTopic] = {}
    for tp in dict.fromkeys(_asked(replicas, request)):
        replica = replicas.partitions.get(tp)
        if replica is not None:
            topic = topics.setdefault(tp.topic, DescribeLogDirsTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(_described(replica))
    memory = replicas.memory
    result = DescribeLogDirsResult(
        log_dir=LOG_DIR,
        topics=list(topics.values()),
        total_bytes=memory.limit_bytes,
        usable_bytes=max(0, memory.limit_bytes - memory.used_bytes),
    )
    reply(DescribeLogDirsResponse(results=[result]))


def _asked(replicas: ReplicaManager, request: DescribeLogDirsRequest) -> Iterable[TopicPartition]:
    if request.topics is None:
        return sorted(replicas.partitions)
    return (TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions)


def _described(replica: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=replica.tp.partition,
        partition_size=replica.log.size_bytes,
        offset_lag=max(0, replica.high_watermark - replica.log.log_end_offset),
    )


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    min_version=1,
    max_version=5,
    needs=cluster(AclOperation.DESCRIBE),
    bind=lambda services: partial(handle, services.replicas),
)
