"""A request that changes the cluster, and waits: for the metadata store to decide, and for this broker to see it.

Kafka has one delayed operation for created topics, which waits for their leaders, and one for elections. They wait
for the same thing, an image that shows what was decided, and are told apart by their purgatories, "topic" and
"ElectLeader".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic

from purgatorio.broker.metadata.cluster_change import ClusterChange, R
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, Topic
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.protocol.errors import ErrorCode

UNDECIDED: Final = "the metadata store has not decided yet"


class DelayedDecision(DelayedOperation, Generic[R]):
    """Waits for a decision and for the image that shows it.

    When the time is over, a result that the image does not show is REQUEST_TIMED_OUT; it may be seen later all the
    same. One that was refused stays refused, and one that is seen stays done.

    Args:
        change: what is decided, and how it is answered.
        image: the image that this broker sees.
        reply: sends the response; called once.
    """

    __slots__ = ("_change", "_image", "_refusal", "_reply", "_results")

    def __init__(
        self, change: ClusterChange[R], image: Callable[[], ClusterImage], reply: Callable[[Any], None]
    ) -> None:
        super().__init__(max(0, change.timeout_ms))
        self._change = change
        self._image = image
        self._reply = reply
        self._results: Sequence[R] | None = None
        self._refusal: ErrorCode | None = None

    def decided(self, results: Sequence[R]) -> None:
        """The store has committed the decision; to be followed by a check."""
        self._results = results

    def refused(self, error_code: ErrorCode) -> None:
        """The store has not committed the decision; to be followed by a check."""
        self._refusal = error_code

    def try_complete(self) -> bool:
        """Complete if the decision was refused, or is taken and seen."""
        return (self._refusal is not None or not self.missing()) and self.force_complete()

    def missing(self) -> str:
        """The decision, or the first result that the image does not show yet."""
        if self._results is None:
            return UNDECIDED
        image = self._image()
        for result in self._results:
            if missing := self._change.missing(image, result):
                return missing
        return ""

    def on_complete(self) -> None:
        """Answer with the results, or with why there are none; a deadline that has come is a reason, too."""
        if self._refusal is not None:
            self._reply(self._change.refuse(self._refusal))
        elif self._results is None:
            self._reply(self._change.refuse(ErrorCode.REQUEST_TIMED_OUT))
        else:
            image = self._image()
            self._reply(self._change.respond([self._seen(image, result) for result in self._results]))

    def _seen(self, image: ClusterImage, result: R) -> R:
        """The result as the client may be told it now."""
        missing = self._change.missing(image, result)
        return self._change.timed_out(result, missing) if missing else result

    def on_shutdown(self) -> None:
        """Answer with the error that makes a client turn to another broker."""
        self._reply(self._change.refuse(ErrorCode.NOT_CONTROLLER))

    def on_error(self, error: Exception) -> None:
        """Answer that the broker failed; what was decided stays done."""
        self._reply(self._change.refuse(ErrorCode.UNKNOWN_SERVER_ERROR))


def leaderless(image: ClusterImage, created: Topic) -> str:
    """Which partition of a topic has no leader yet, in words; a topic that is gone again needs none."""
    topic = image.topics.get(created.name)
    if topic is not None and topic.topic_id == created.topic_id:
        for index, state in enumerate(topic.partitions):
            if state.leader == NO_LEADER:
                return f"{topic.name}-{index}: no leader yet"
    return ""
