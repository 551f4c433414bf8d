"""TxnOffsetCommit (key 28): store offsets of a group that become visible when a transaction commits (KIP-98).

Versions 0–6. Answered when the records are replicated, before the transaction ends. From version 3 on the client may
name the member that commits, which is checked (KIP-447). From version 5 on the request adds the partition of
``__consumer_offsets`` to the transaction; before, AddOffsetsToTxn has done so (KIP-890). From version 6 on topics are
named by id, and the errors are those of OffsetCommit (KIP-1319). Unknown partitions and too long metadata are refused
one by one; what the coordinators refuse is refused for all others.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.offset_commit import topic_of
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.group.txn_offset_manager import MEMBER_EPOCH_VERSION, CommittingMember, TxnCommit
from purgatorio.broker.layers.access.guards.transactions import txn_offset_commit as guard
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
)
from purgatorio.protocol.parts import failed

LOADING_VERSION: Final = 2
"""The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS; older Java clients fail on it (KAFKA-7296)."""
ABORTABLE_VERSION: Final = 4
"""The first version whose clients know TRANSACTION_ABORTABLE (KIP-890)."""
ADDING_VERSION: Final = 5
"""The first version that adds the partition to the transaction (KIP-890)."""
TOPIC_ID_VERSION: Final = 6
"""The first version with topic ids instead of names (KIP-1319)."""


def handle(groups: Groups, ctx: RequestContext, request: TxnOffsetCommitRequest, reply: Reply) -> None:
    """Store the offsets of the partitions that exist."""
    response: TxnOffsetCommitResponse = failed(ApiKey.TXN_OFFSET_COMMIT, request, ErrorCode.NONE)
    accepted, offsets = _accepted(groups, ctx.api_version, request, response)

    def done(error_code: ErrorCode) -> None:
        code = _code_for(error_code, ctx.api_version)
        for answer in accepted:
            answer.error_code = code
        reply(response)

    if not offsets:
        reply(response)
        return
    refused = _refusal(request)
    if refused != ErrorCode.NONE:
        done(refused)
        return
    transaction = ProducerTransaction(
        request.transactional_id, request.producer_id, request.producer_epoch, ctx.api_version >= ADDING_VERSION
    )
    try:
        groups.txn_offsets.commit(
            TxnCommit(
                request.group_id,
                transaction,
                offsets,
                CommittingMember(request.member_id, request.group_instance_id, request.generation_id),
                ctx.client_id or "",
                ctx.api_version,
            ),
            done,
        )
    except CoordinatorError as error:
        done(error.error_code)


def _refusal(request: TxnOffsetCommitRequest) -> ErrorCode:
    """Return what is wrong with the request itself; NONE if nothing is."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.producer_id < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.INVALID_PRODUCER_EPOCH if request.producer_epoch < 0 else ErrorCode.NONE


def _code_for(error_code: ErrorCode, version: int) -> ErrorCode:
    """Return the error code that clients of this version understand."""
    if error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error_code == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    if error_code == ErrorCode.STALE_MEMBER_EPOCH and version < MEMBER_EPOCH_VERSION:
        return ErrorCode.ILLEGAL_GENERATION
    return error_code


def _accepted(
    groups: Groups, version: int, request: TxnOffsetCommitRequest, response: TxnOffsetCommitResponse
) -> tuple[list[TxnOffsetCommitResponsePartition], list[tuple[str, int, CommittedOffset]]]:
    """Return the offsets that may be committed, with their places in the response; the others get their errors."""
    max_metadata = groups.config.offset_metadata_max_bytes
    now_ms = groups.clock.wall_ms()
    accepted: list[TxnOffsetCommitResponsePartition] = []
    offsets: list[tuple[str, int, CommittedOffset]] = []
    for asked, answered in zip(request.topics, response.topics, strict=True):
        topic, missing = topic_of(groups.image, asked, by_id=version >= TOPIC_ID_VERSION)
        for each, answer in zip(asked.partitions, answered.partitions, strict=True):
            metadata = each.committed_metadata or ""
            if topic is None or not 0 <= each.partition_index < len(topic.partitions):
                answer.error_code = missing
            elif len(metadata) > max_metadata:
                answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = CommittedOffset(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    metadata,
                    now_ms,
                    topic_id=topic.topic_id,
                )
                accepted.append(answer)
                offsets.append((topic.name, each.partition_index, committed))
    return accepted, offsets


API: Final = ApiHandler(
    key=ApiKey.TXN_OFFSET_COMMIT,
    min_version=0,
    max_version=6,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
