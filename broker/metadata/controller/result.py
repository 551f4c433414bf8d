"""The result of a decision for each topic."""

from __future__ import annotations

from purgatorio.broker.metadata.image import Topic
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode


class DecisionRefused(Exception):
    """Raised inside a decision to refuse one part of it, with an error code and a message for the client."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The outcome for one topic.

    Attributes:
        name: None if the request named the topic by an unknown id.
        topic: the created, changed or deleted topic (with validate_only, as it would be); None on error.
    """

    name: str | None
    topic: Topic | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: bytes = bytes(16)


def done(topic: Topic) -> TopicResult:
    """Return the result for a topic whose change is accepted."""
    return TopicResult(topic.name, topic, topic_id=topic.topic_id)


def refused(name: str | None, refusal: DecisionRefused, topic_id: bytes = bytes(16)) -> TopicResult:
    """Return the result for a topic whose change is refused."""
    return TopicResult(name, error=refusal.error, message=refusal.message, topic_id=topic_id)
