"""What a decision says about each topic."""

from __future__ import annotations

from dataclasses import dataclass

from purgatorio.broker.metadata.image import Topic
from purgatorio.protocol.errors import ErrorCode


class Refused(Exception):
    """Inside a decision: this part of it is refused, with a code and a sentence for the client."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The outcome for one topic.

    Attributes:
        name: None if the topic was named by an id that is not known.
        topic: the topic as it was created, changed or deleted, or would be (validate_only); None on error.
    """

    name: str | None
    topic: Topic | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: bytes = bytes(16)


def done(topic: Topic) -> TopicResult:
    """It is done, or would be."""
    return TopicResult(topic.name, topic, topic_id=topic.topic_id)


def refused(name: str | None, refusal: Refused, topic_id: bytes = bytes(16)) -> TopicResult:
    """It is refused."""
    return TopicResult(name, error=refusal.error, message=refusal.message, topic_id=topic_id)
