"""DeleteTopics (key 20): delete topics by name, from v6 on also by id (KIP-516).

Versions 1–6. Any broker answers, when its image no longer has the topics or after `timeout_ms`. Many topics are deleted
in slices. With `delete.topic.enable` false all topics of a request are refused with TOPIC_DELETION_DISABLED, also those
that do not exist; before v3, whose clients do not know this error, with INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.topics import delete_topics as guard
from purgatorio.broker.metadata.cluster_change import WEIGHT_OF_PARTITIONS, ClusterChange, Decide, slices
from purgatorio.broker.metadata.controller import TopicReference, TopicResult, delete_topics
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from purgatorio.protocol.parts import failed

TOPIC_DELETION_DISABLED_FROM: Final = 3
"""The first version whose clients know the error."""


def handle(admin: AdminContext, ctx: RequestContext, request: DeleteTopicsRequest, reply: Reply) -> None:
    """Delete each topic independently of the others."""
    if not admin.delete_topic_enable:
        has_code = ctx.api_version >= TOPIC_DELETION_DISABLED_FROM
        code = ErrorCode.TOPIC_DELETION_DISABLED if has_code else ErrorCode.INVALID_REQUEST
        reply(failed(ApiKey.DELETE_TOPICS, request, code))
        return
    submit(admin, ctx, _DeleteTopics(admin.store.image, request), reply)


_Named = tuple[str, TopicReference]
"""A topic with the name that the request is watched under."""


class _DeleteTopics(ClusterChange[TopicResult]):
    def __init__(self, image: ClusterImage, request: DeleteTopicsRequest) -> None:
        self._named = [(_name(image, topic), topic) for topic in _references(request)]
        super().__init__(topic_keys(name for name, _ in self._named), request.timeout_ms)
        self._request = request
        self._image = image

    def decisions(self) -> Sequence[Decide[TopicResult]]:
        return [partial(self._decide, named) for named in slices(self._named, itemgetter(0), self._weight)]

    @staticmethod
    def _decide(named: Sequence[_Named], image: ClusterImage) -> tuple[ClusterImage, Sequence[TopicResult]]:
        return delete_topics(image, [topic for _, topic in named])

    def _weight(self, named: _Named) -> int:
        topic = self._image.topics.get(named[0])
        return 1 if topic is None else 2 + len(topic.partitions) // WEIGHT_OF_PARTITIONS

    def respond(self, results: Sequence[TopicResult]) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(
                    name=result.name,
                    topic_id=result.topic_id,
                    error_code=result.error,
                    error_message=result.message,
                )
                for result in results
            ]
        )

    def refuse(self, error_code: ErrorCode) -> Any:
        return failed(ApiKey.DELETE_TOPICS, self._request, error_code)


def _name(image: ClusterImage, reference: TopicReference) -> str:
    """Return the name that the request is watched under: the topic's name, or the id in hex if the id is unknown."""
    if reference.name is not None:
        return reference.name
    topic = image.topic_by_id(reference.topic_id)
    return reference.topic_id.hex() if topic is None else topic.name


def _references(request: DeleteTopicsRequest) -> list[TopicReference]:
    """Return the topics to delete; versions before 6 have a list of names instead of topics."""
    named = [TopicReference(name) for name in request.topic_names]
    return named + [TopicReference(topic.name, topic.topic_id) for topic in request.topics]


API: Final = ApiHandler(
    key=ApiKey.DELETE_TOPICS,
    min_version=1,
    max_version=6,
    needs=guard,
    bind=lambda services: partial(handle, services.admin),
)
