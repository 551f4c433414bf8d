"""AlterPartitionReassignments (key 45): move partitions to other brokers, or cancel moves (KIP-455).

Versions 0–1; v1 can forbid a change of the replication factor (KIP-860). Any broker answers, when the reassignment has
begun or after `timeout_ms`. ListPartitionReassignments shows whether it has finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.controller import (
    Reassignment,
    ReassignmentResult,
    TopicSettings,
    reassign_partitions,
)
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from purgatorio.protocol.parts import failed


def handle(admin: AdminContext, ctx: RequestContext, request: AlterPartitionReassignmentsRequest, reply: Reply) -> None:
    """Start or cancel each reassignment independently of the others."""
    submit(admin, ctx, _AlterPartitionReassignments(admin.topics, request), reply)


class _AlterPartitionReassignments(ClusterChange[ReassignmentResult]):
    def __init__(self, settings: TopicSettings, request: AlterPartitionReassignmentsRequest) -> None:
        super().__init__(topic_keys(topic.name for topic in request.topics), request.timeout_ms)
        self._settings = settings
        self._request = request
        self._wanted = [
            Reassignment(
                topic.name, partition.partition_index, None if partition.replicas is None else tuple(partition.replicas)
            )
            for topic in request.topics
            for partition in topic.partitions
        ]

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[ReassignmentResult]]:
        return reassign_partitions(
            image,
            self._wanted,
            settings=self._settings,
            allow_replication_factor_change=self._request.allow_replication_factor_change,
        )

    def respond(self, results: Sequence[ReassignmentResult]) -> AlterPartitionReassignmentsResponse:
        return _response(self._request, results)

    def refuse(self, error_code: ErrorCode) -> Any:
        return failed(ApiKey.ALTER_PARTITION_REASSIGNMENTS, self._request, error_code)


def _response(
    request: AlterPartitionReassignmentsRequest,
    results: Iterable[ReassignmentResult],
    error_code: ErrorCode = ErrorCode.NONE,
) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, ReassignableTopicResponse] = {}
    for result in results:
        topic = topics.setdefault(result.topic, ReassignableTopicResponse(name=result.topic, partitions=[]))
        topic.partitions.append(
            ReassignablePartitionResponse(
                partition_index=result.partition, error_code=result.error, error_message=result.message
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error_code,
        error_message=None,
        responses=list(topics.values()),
    )


API: Final = ApiHandler(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    min_version=0,
    max_version=1,
    needs=cluster(AclOperation.ALTER),
    bind=lambda services: partial(handle, services.admin),
)
