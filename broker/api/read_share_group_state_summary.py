"""ReadShareGroupStateSummary (key 87): read how far share partitions have come (KIP-932). Versions 0–1.

The group coordinator sends it. A share coordinator answers for the share partitions that it coordinates.
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
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryPartition,
    ReadStateSummaryPartitionResult,
    ReadStateSummaryTopicResult,
)
from purgatorio.protocol.share_state import SharePartitionKey


def handle(
    coordinator: ShareCoordinator, ctx: RequestContext, request: ReadShareGroupStateSummaryRequest, reply: Reply
) -> None:
    """Summarize each share partition; answer when its state is committed."""

    def ask(key: SharePartitionKey, entry: ReadStateSummaryPartition, done: Answer) -> None:
        coordinator.summary(key, done=done)

    answer_each(request, ask, partial(_respond, reply))


def _respond(reply: Reply, results: Sequence[Result]) -> None:
    reply(
        ReadShareGroupStateSummaryResponse(
            results=[
                ReadStateSummaryTopicResult(
                    topic_id=topic.topic_id,
                    partitions=[_result(entry.partition, outcome) for entry, outcome in entries],
                )
                for topic, entries in results
            ]
        )
    )


def _result(partition: int, outcome: StateOutcome) -> ReadStateSummaryPartitionResult:
    state = outcome.state
    if state is None:
        return ReadStateSummaryPartitionResult(
            partition=partition, error_code=outcome.error_code, error_message=outcome.message
        )
    return ReadStateSummaryPartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )


API: Final = ApiHandler(
    key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    min_version=0,
    max_version=1,
    needs=cluster(AclOperation.CLUSTER_ACTION),
    bind=lambda services: partial(handle, services.shares.coordinator),
)
