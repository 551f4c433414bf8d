"""CreatePartitions (key 37): add partitions to topics (KIP-195).

Versions 0–3. Any broker answers, when its image shows the partitions or after `timeout_ms`. Existing partitions are
neither removed nor moved. Partitions of many topics are added in slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.metadata.cluster_change import WEIGHT_OF_PARTITIONS, ClusterChange, Decide, only_tried, slices
from purgatorio.broker.metadata.controller import MorePartitions, TopicResult, TopicSettings, create_partitions
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from purgatorio.protocol.parts import failed


def handle(admin: AdminContext, ctx: RequestContext, request: CreatePartitionsRequest, reply: Reply) -> None:
    """Add the partitions; with validate_only, only check the request."""
    submit(admin, ctx, _CreatePartitions(admin.topics, request), reply)


class _CreatePartitions(ClusterChange[TopicResult]):
    def __init__(self, settings: TopicSettings, request: CreatePartitionsRequest) -> None:
        super().__init__(topic_keys(topic.name for topic in request.topics), request.timeout_ms)
        self._settings = settings
        self._request = request
        self._wanted = [_wanted(topic) for topic in request.topics]

    def decisions(self) -> Sequence[Decide[TopicResult]]:
        cut = slices(self._wanted, attrgetter("name"), lambda topic: 2 + topic.count // WEIGHT_OF_PARTITIONS)
        decisions = [partial(self._decide, wanted) for wanted in cut]
        return only_tried(decisions) if self._request.validate_only else decisions

    def _decide(
        self, wanted: Sequence[MorePartitions], image: ClusterImage
    ) -> tuple[ClusterImage, Sequence[TopicResult]]:
        return create_partitions(image, wanted, settings=self._settings)

    def respond(self, results: Sequence[TopicResult]) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(
                    name=result.name or "", error_code=result.error, error_message=result.message
                )
                for result in results
            ]
        )

    def refuse(self, error_code: ErrorCode) -> Any:
        return failed(ApiKey.CREATE_PARTITIONS, self._request, error_code)


def _wanted(topic: CreatePartitionsTopic) -> MorePartitions:
    if topic.assignments is None:
        return MorePartitions(topic.name, topic.count)
    return MorePartitions(topic.name, topic.count, [assignment.broker_ids for assignment in topic.assignments])


API: Final = ApiHandler(
    key=ApiKey.CREATE_PARTITIONS,
    min_version=0,
    max_version=3,
    needs=EachOne(ApiKey.CREATE_PARTITIONS, AclOperation.ALTER, ResourceType.TOPIC),
    bind=lambda services: partial(handle, services.admin),
)
