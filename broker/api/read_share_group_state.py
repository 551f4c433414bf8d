"""ReadShareGroupState (key 84): read the state of share partitions (KIP-932). Version 0.

A partition's leader sends it. A share coordinator answers for the share partitions that it coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.api.share_states import Result, answer_each
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.share.state.coordinator import Answer, ShareCoordinator, StateOutcome
from purgatorio.broker.share.state_client import MAX_READS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStatePartition,
    ReadStatePartitionResult,
    ReadStateTopicResult,
)
from purgatorio.protocol.share_state import SharePartitionKey


def handle(
    coordinator: ShareCoordinator, ctx: RequestContext, request: ReadShareGroupStateRequest, reply: Reply
) -> None:
    """Read each state, and fence older leaders; answer when the returned states are committed."""

    def ask(key: SharePartitionKey, entry: ReadStatePartition, done: Answer) -> None:
        if entry.leader_epoch < 0:
            done(StateOutcome(ErrorCode.INVALID_REQUEST, f"There is no leader epoch {entry.leader_epoch}."))
            return
        coordinator.read(key, leader_epoch=entry.leader_epoch, done=done, client=ctx.client_id or "")

    answer_each(request, ask, partial(_respond, reply), max_partitions=MAX_READS)


def _respond(reply: Reply, results: Sequence[Result]) -> None:
    reply(
        ReadShareGroupStateResponse(
            results=[
                ReadStateTopicResult(
                    topic_id=topic.topic_id,
                    partitions=[_result(entry.partition, outcome) for entry, outcome in entries],
                )
                for topic, entries in results
            ]
        )
    )


def _result(partition: int, outcome: StateOutcome) -> ReadStatePartitionResult:
    state = outcome.state
    if state is None:
        return ReadStatePartitionResult(
            partition=partition, error_code=outcome.error_code, error_message=outcome.message
        )
    return ReadStatePartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=list(state.batches),
    )


API: Final = ApiHandler(
    key=ApiKey.READ_SHARE_GROUP_STATE,
    min_version=0,
    max_version=0,
    needs=cluster(AclOperation.CLUSTER_ACTION),
    bind=lambda services: partial(handle, services.shares.coordinator),
)
