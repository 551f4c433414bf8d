"""ListPartitionReassignments (key 46): list ongoing reassignments (KIP-455). Version 0; any broker answers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(admin: AdminContext, ctx: RequestContext, request: ListPartitionReassignmentsRequest, reply: Reply) -> None:
    """Answer from this broker's image; partitions without a reassignment, and unknown ones, are left out."""
    image = admin.store.image
    topics: dict[str, OngoingTopicReassignment] = {}
    for name, index in dict.fromkeys(_asked(image, request)):
        state = image.partition(name, index)
        if state is not None and (state.adding or state.removing):
            topic = topics.setdefault(name, OngoingTopicReassignment(name=name, partitions=[]))
            topic.partitions.append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(state.replicas),
                    adding_replicas=list(state.adding),
                    removing_replicas=list(state.removing),
                )
            )
    reply(ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values())))


def _asked(image: ClusterImage, request: ListPartitionReassignmentsRequest) -> Iterable[tuple[str, int]]:
    if request.topics is None:
        return ((topic.name, index) for topic in image.topics.values() for index in range(len(topic.partitions)))
    return ((topic.name, index) for topic in request.topics for index in topic.partition_indexes)


API: Final = ApiHandler(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    min_version=0,
    max_version=0,
    needs=cluster(AclOperation.DESCRIBE),
    bind=lambda services: partial(handle, services.admin),
)
