"""OffsetForLeaderEpoch (key 23): look up the end offset of a leader epoch (KIP-101, KIP-279, KIP-320).

Versions 2–4. Consumers use it to detect that the log was truncated.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.whole import either, is_broker
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(replicas: ReplicaManager, ctx: RequestContext, request: OffsetForLeaderEpochRequest, reply: Reply) -> None:
    """Answer for every partition."""
    reply(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        _answer(replicas.lookup, TopicPartition(topic.topic, wanted.partition), wanted)
                        for wanted in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    )


def _answer(lookup: ReplicaLookup, tp: TopicPartition, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition, leader_epoch=-1, end_offset=-1)
    try:
        partition = lookup.find(tp)
        partition.check_leader(wanted.current_leader_epoch)
    except PartitionError as error:
        answer.error_code = error.error_code
    else:
        answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    return answer


API: Final = ApiHandler(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    min_version=2,
    max_version=4,
    needs=either(is_broker, EachOne(ApiKey.OFFSET_FOR_LEADER_EPOCH, AclOperation.DESCRIBE, ResourceType.TOPIC)),
    bind=lambda services: partial(handle, services.replicas),
)
