"""DeleteTopics (key 20): topics deleted by name, from v6 on also by id (KIP-516).

Versions 1–6. Any broker answers: when it no longer sees the topics, or after `timeout_ms`.
"""

from __future__ import annotations

from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.metadata.controller import TopicReference, TopicResult, delete_topics
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse


def handle(admin: AdminContext, ctx: RequestContext, request: DeleteTopicsRequest, reply: Reply) -> None:
    """Delete the topics, each for itself."""
    topics = _references(request)

    def answer(results: tuple[TopicResult, ...]) -> DeleteTopicsResponse:
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

    submit(
        admin,
        ctx,
        lambda image: delete_topics(image, topics),
        answer,
        lambda code: error_response(request, code),
        reply,
        keys=topic_keys(_name(admin.store.image, topic) for topic in topics),
        timeout_ms=request.timeout_ms,
    )


def _name(image: ClusterImage, reference: TopicReference) -> str:
    """What to call a topic while its deletion waits; an id that is not known stands for itself."""
    if reference.name is not None:
        return reference.name
    topic = image.topic_by_id(reference.topic_id)
    return reference.topic_id.hex() if topic is None else topic.name


def _references(request: DeleteTopicsRequest) -> list[TopicReference]:
    """What is to be deleted; versions before 6 have a list of names in place of the topics."""
    named = [TopicReference(name) for name in request.topic_names]
    return named + [TopicReference(topic.name, topic.topic_id) for topic in request.topics]


def error_response(request: DeleteTopicsRequest, error_code: ErrorCode) -> DeleteTopicsResponse:
    """Every topic answered with `error_code`."""
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error_code)
            for topic in dict.fromkeys(_references(request))
        ]
    )
