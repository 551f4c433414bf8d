"""ListOffsets (key 2): look up offsets by timestamp, or by one of the special timestamps below.

Versions 1–11. Special timestamps: −1 latest, −2 earliest, −3 the offset of the largest timestamp (v7, KIP-734), −4
earliest local (v8, KIP-405), −5 latest tiered (v9, KIP-1005) and −6 earliest pending upload (v11, KIP-1023); the last
two are found in topics with a tier only. A timestamp that may lie in the tier is answered when it is looked up there.
If no record has the timestamp or a later one, the offset is −1 without an error (Spark relies on it). Other negative
timestamps, and those that the version does not know, are answered with UNSUPPORTED_VERSION; each mention of a partition
that the request names more than once with INVALID_REQUEST.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.log.time_index import LookUpBudget, TimestampOffset
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.replica.delayed_remote_list_offsets import RemoteLookUp, RemoteLookUps
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
FIRST_VERSIONS: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of the API that knows each special timestamp."""
READ_COMMITTED = 1
OFFSET_NOT_AVAILABLE_VERSION = 5
NOT_FOUND = (-1, -1, -1)


def handle(replicas: ReplicaManager, ctx: RequestContext, request: ListOffsetsRequest, reply: Reply) -> None:
    """Answer for every partition."""
    budget = LookUpBudget()
    response = ListOffsetsResponse()
    look_ups: list[RemoteLookUp] = []
    repeated = _repeated(request)
    for topic in request.topics:
        if not topic.partitions:
            continue  # it is left out, as in Kafka
        answers = []
        for wanted in topic.partitions:
            tp = TopicPartition(topic.name, wanted.partition_index)
            if tp in repeated:
                answers.append(_failed(wanted, ErrorCode.INVALID_REQUEST))
            else:
                answers.append(_answer(replicas, tp, ctx.api_version, request, wanted, budget, look_ups))
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    if look_ups and replicas.look_ups is not None:
        replicas.look_ups.park(look_ups, request.timeout_ms, lambda: reply(response), ctx.client_id or "")
    else:
        reply(response)


def _repeated(request: ListOffsetsRequest) -> set[TopicPartition]:
    """Return the partitions that the request names more than once."""
    seen: set[TopicPartition] = set()
    repeated: set[TopicPartition] = set()
    for topic in request.topics:
        for wanted in topic.partitions:
            tp = TopicPartition(topic.name, wanted.partition_index)
            (repeated if tp in seen else seen).add(tp)
    return repeated


def _failed(wanted: ListOffsetsPartition, error_code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, error_code=error_code, timestamp=-1, offset=-1, leader_epoch=-1
    )


def _answer(
    replicas: ReplicaManager,
    tp: TopicPartition,
    version: int,
    request: ListOffsetsRequest,
    wanted: ListOffsetsPartition,
    budget: LookUpBudget,
    look_ups: list[RemoteLookUp],
) -> ListOffsetsPartitionResponse:
    """Return the answer about a partition; it is filled in later if it is among the look-ups afterwards."""
    if wanted.timestamp < 0 and version < FIRST_VERSIONS.get(wanted.timestamp, version + 1):
        return _failed(wanted, ErrorCode.UNSUPPORTED_VERSION)
    answer = _failed(wanted, ErrorCode.NONE)
    try:
        partition = replicas.lookup.find(tp)
        partition.check_leader(wanted.current_leader_epoch)
        if wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            offset, epoch = _tiered(replicas.look_ups, partition, wanted.timestamp)
            if offset < _visible_end(partition, request):  # Kafka names no offset that has no record yet
                answer.offset, answer.leader_epoch = offset, epoch
            return answer
        if wanted.timestamp >= 0 and partition.log.local_start_offset > partition.log.log_start_offset:
            _check_knows_end(partition, version, request)
            end_offset, epoch = _visible_end(partition, request), wanted.current_leader_epoch
            look_ups.append(RemoteLookUp(partition, wanted.timestamp, end_offset, epoch, partial(_fill_in, answer)))
            return answer
        answer.offset, answer.timestamp, answer.leader_epoch = _look_up(
            partition, version, request, wanted.timestamp, budget
        )
    except PartitionError as error:
        answer.error_code = error.error_code
    return answer


def _look_up(
    partition: Partition, version: int, request: ListOffsetsRequest, timestamp_ms: int, budget: LookUpBudget
) -> tuple[int, int, int]:
    """Return offset, timestamp and leader epoch.

    Raises:
        PartitionError: OFFSET_NOT_AVAILABLE (before v5 LEADER_NOT_AVAILABLE) while the high watermark of a new leader
            is below the start offset of its leader epoch (KIP-207).
    """
    log = partition.log
    end_offset = _visible_end(partition, request)
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        start_offset = log.log_start_offset if timestamp_ms == EARLIEST else log.local_start_offset
        return start_offset, -1, log.epochs.epoch_at(start_offset)
    _check_knows_end(partition, version, request)
    if timestamp_ms == LATEST:
        return end_offset, -1, partition.leader_epoch
    if timestamp_ms == MAX_TIMESTAMP:
        return log.max_timestamp(end_offset, budget) or NOT_FOUND
    return log.offset_for_timestamp(timestamp_ms, end_offset, budget) or NOT_FOUND


def _check_knows_end(partition: Partition, version: int, request: ListOffsetsRequest) -> None:
    """Check that this leader knows what is committed; raises PartitionError as `_look_up` says."""
    if request.replica_id < 0 and partition.high_watermark < partition.leader_epoch_start_offset:
        known = version >= OFFSET_NOT_AVAILABLE_VERSION
        raise PartitionError(
            ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE,
            "the high watermark has not reached this leader's epoch yet",
        )


def _tiered(look_ups: RemoteLookUps | None, partition: Partition, timestamp_ms: int) -> tuple[int, int]:
    """Return the last offset that is copied, or the first that is not, with its epoch; −1: there is none."""
    log = partition.log
    if look_ups is None or not log.is_tiered:
        return NOT_FOUND[:2]
    remote = look_ups.tiering.remote_of(partition)
    if remote.listed_in_epoch != partition.leader_epoch:
        return NOT_FOUND[:2]  # it is not known yet
    if timestamp_ms == EARLIEST_PENDING_UPLOAD:
        pending = max(log.copied_to, log.log_start_offset)
        return pending, log.epochs.epoch_at(pending)
    copied_to = log.copied_to
    if copied_to <= log.log_start_offset:  # what was copied is deleted
        copied_to = min(remote.copied_to, log.log_start_offset)
    if copied_to <= 0:
        return NOT_FOUND[:2]
    return copied_to - 1, log.epochs.epoch_at(copied_to - 1)


def _fill_in(answer: ListOffsetsPartitionResponse, found: TimestampOffset, error_code: ErrorCode) -> None:
    """Fill in the answer about a partition whose timestamp was looked up in the tier."""
    answer.error_code = error_code
    answer.offset, answer.timestamp, answer.leader_epoch = found


def _visible_end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Return the end of the log as the client or follower may see it."""
    if request.replica_id >= 0:
        return partition.log.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


API: Final = ApiHandler(
    key=ApiKey.LIST_OFFSETS,
    min_version=1,
    max_version=11,
    needs=EachOne(ApiKey.LIST_OFFSETS, AclOperation.DESCRIBE, ResourceType.TOPIC),
    bind=lambda services: partial(handle, services.replicas),
)
