"""DescribeProducers (key 61): the producers that a replica of a partition knows (KIP-664).

Version 0. A broker without a replica answers NOT_LEADER_OR_FOLLOWER. Kafka's tools find transactions that hang with it.
An answer has a bounded number of producers. Where there are more, those without an open transaction are left out; a
partition whose open transactions are too many is refused with INVALID_REQUEST, and can be asked for alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import takewhile
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.log.producer_state import ProducerState, ProducerStates
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.metadata.topic_name import topic_name_problem
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_producers import (
    DescribedProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)

MAX_PRODUCERS: Final = 6_000
"""The most producers of one answer: as many as one log has at most, in about 10 ms."""


def handle(replicas: ReplicaManager, ctx: RequestContext, request: DescribeProducersRequest, reply: Reply) -> None:
    """List the producers of the partitions that this broker has."""
    left = MAX_PRODUCERS
    topics = []
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            response = _describe(replicas, TopicPartition(topic.name, index), left)
            left -= len(response.active_producers)
            partitions.append(response)
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    reply(DescribeProducersResponse(topics=topics))


def _describe(replicas: ReplicaManager, tp: TopicPartition, limit: int) -> PartitionResponse:
    """List at most `limit` producers of a partition."""
    try:
        if problem := topic_name_problem(tp.topic):
            raise PartitionError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        described = _listed(replicas.lookup.find(tp).log.producers, limit)
    except PartitionError as error:
        return PartitionResponse(
            partition_index=tp.partition, error_code=error.error_code, error_message=str(error), active_producers=[]
        )
    return PartitionResponse(
        partition_index=tp.partition, active_producers=[_described(*producer) for producer in described]
    )


def _listed(producers: ProducerStates, limit: int) -> Iterable[tuple[int, ProducerState]]:
    """Return the producers that the answer has room for.

    Raises:
        PartitionError: INVALID_REQUEST if not even those with open transactions have room.
    """
    if len(producers) <= limit:
        return producers
    if producers.open_count <= limit:
        return takewhile(lambda producer: producer[1].transaction_start >= 0, producers)
    raise PartitionError(
        ErrorCode.INVALID_REQUEST, f"an answer has at most {MAX_PRODUCERS} producers: ask for fewer partitions"
    )


def _described(producer_id: int, state: ProducerState) -> DescribedProducer:
    return DescribedProducer(
        producer_id=producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.batches[-1].last_sequence if state.batches else -1,
        last_timestamp_ms=state.appended_ms,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.transaction_start,
    )


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_PRODUCERS,
    min_version=0,
    max_version=0,
    needs=EachOne(ApiKey.DESCRIBE_PRODUCERS, AclOperation.READ, ResourceType.TOPIC),
    bind=lambda services: partial(handle, services.replicas),
)
