"""A request that changes the cluster, and waits: for the metadata store to decide, and for this broker to see it.

Kafka has one delayed operation for created topics, which waits for their leaders, and one for elections. They wait
for the same thing, an image that shows what was decided, and are told apart by their purgatories, "topic" and
"ElectLeader".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, Topic
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.protocol.errors import ErrorCode

T = TypeVar("T")

UNDECIDED: Final = "the metadata store has not decided yet"


class DelayedDecision(DelayedOperation, Generic[T]):
    """Waits for a decision and for the image that shows it.

    Args:
        delay_ms: the request's own timeout. What was not seen by then may happen all the same.
        image: what this broker sees.
        unseen: what of a result an image does not show yet, in words; "" if nothing.
        late: a result as it is told when the time is over: what the image does not show is REQUEST_TIMED_OUT, what
            was refused stays refused, what is seen stays done.
        answer: makes the answer from the decision's result; called once, if `refuse` is not.
        refuse: answers that nothing is known to have changed, and why.
    """

    __slots__ = ("_answer", "_image", "_late", "_refusal", "_refuse", "_result", "_unseen")

    def __init__(
        self,
        delay_ms: int,
        image: Callable[[], ClusterImage],
        unseen: Callable[[ClusterImage, T], str],
        late: Callable[[ClusterImage, T], T],
        answer: Callable[[T], None],
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        super().__init__(delay_ms)
        self._image = image
        self._unseen = unseen
        self._late = late
        self._answer = answer
        self._refuse = refuse
        self._result: tuple[T] | None = None
        self._refusal: ErrorCode | None = None

    def decided(self, result: T) -> None:
        """The store has committed the decision; to be followed by a check."""
        self._result = (result,)

    def refused(self, error_code: ErrorCode) -> None:
        """The store has not committed the decision; to be followed by a check."""
        self._refusal = error_code

    def try_complete(self) -> bool:
        """Complete if the decision was refused, or is taken and seen."""
        return (self._refusal is not None or not self.missing()) and self.force_complete()

    def missing(self) -> str:
        """What is waited for."""
        if self._result is None:
            return UNDECIDED
        return self._unseen(self._image(), self._result[0])

    def on_complete(self) -> None:
        """Answer with the result, or with why there is none; a deadline that has come is a reason, too."""
        if self._refusal is not None:
            self._refuse(self._refusal)
        elif self._result is None:
            self._refuse(ErrorCode.REQUEST_TIMED_OUT)
        else:
            (result,) = self._result
            image = self._image()
            self._answer(self._late(image, result) if self._unseen(image, result) else result)

    def on_shutdown(self) -> None:
        """Answer with the error that makes a client turn to another broker."""
        self._refuse(ErrorCode.NOT_CONTROLLER)

    def on_error(self, error: Exception) -> None:
        """Answer that the broker failed; what was decided stays done."""
        self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR)


def leaderless(image: ClusterImage, created: Topic) -> str:
    """Which partition of a topic has no leader yet, in words; a topic that is gone again needs none."""
    topic = image.topics.get(created.name)
    if topic is not None and topic.topic_id == created.topic_id:
        for index, state in enumerate(topic.partitions):
            if state.leader == NO_LEADER:
                return f"{topic.name}-{index}: no leader yet"
    return ""
