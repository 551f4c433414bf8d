"""DeleteShareGroupState (key 86): delete the state of share partitions (KIP-932). Version 0.

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
from purgatorio.broker.share.state.coordinator import Answer, ShareCoordinator
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStatePartition,
    DeleteStatePartitionResult,
    DeleteStateTopicResult,
)
from purgatorio.protocol.share_state import SharePartitionKey


def handle(
    coordinator: ShareCoordinator, ctx: RequestContext, request: DeleteShareGroupStateRequest, reply: Reply
) -> None:
    """Delete each state; answer when that is committed."""

    def ask(key: SharePartitionKey, entry: DeleteStatePartition, done: Answer) -> None:
        coordinator.delete(key, done=done, client=ctx.client_id or "")

    answer_each(request, ask, partial(_respond, reply))


def _respond(reply: Reply, results: Sequence[Result]) -> None:
    reply(
        DeleteShareGroupStateResponse(
            results=[
                DeleteStateTopicResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        DeleteStatePartitionResult(
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
    key=ApiKey.DELETE_SHARE_GROUP_STATE,
    min_version=0,
    max_version=0,
    needs=cluster(AclOperation.CLUSTER_ACTION),
    bind=lambda services: partial(handle, services.shares.coordinator),
)
