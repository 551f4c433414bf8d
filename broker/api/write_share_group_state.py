"""WriteShareGroupState (key 85): change the state of share partitions (KIP-932). Versions 0–1.

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
from purgatorio.broker.share.state.coordinator import Answer, ShareCoordinator
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStatePartition,
    WriteStatePartitionResult,
    WriteStateTopicResult,
)
from purgatorio.protocol.share_state import SharePartitionKey


def handle(
    coordinator: ShareCoordinator, ctx: RequestContext, request: WriteShareGroupStateRequest, reply: Reply
) -> None:
    """Change each state; answer when they are committed."""

    def ask(key: SharePartitionKey, entry: WriteStatePartition, done: Answer) -> None:
        coordinator.write(
            key,
            state_epoch=entry.state_epoch,
            leader_epoch=entry.leader_epoch,
            start_offset=entry.start_offset,
            delivery_complete_count=entry.delivery_complete_count,
            batches=entry.state_batches,
            done=done,
            client=ctx.client_id or "",
        )

    answer_each(request, ask, partial(_respond, reply))


def _respond(reply: Reply, results: Sequence[Result]) -> None:
    reply(
        WriteShareGroupStateResponse(
            results=[
                WriteStateTopicResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        WriteStatePartitionResult(
                            partition=entry.partition,
                            error_code=outcome.error_code,
                            error_message=outcome.message,
                        )
                        for entry, outcome in entries
                    ],
                )
                for topic, entries in results
            ]
        )
    )


API: Final = ApiHandler(
    key=ApiKey.WRITE_SHARE_GROUP_STATE,
    min_version=0,
    max_version=1,
    needs=cluster(AclOperation.CLUSTER_ACTION),
    bind=lambda services: partial(handle, services.shares.coordinator),
)
