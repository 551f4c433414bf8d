"""The delayed operation of requests that change the cluster: waits for the decision, and for an image that shows it.

Kafka has one delayed operation for created topics, which waits for their leaders, and one for elections. Both wait for
an image that shows the decision, so here they are one class, in two purgatories: "topic" and "ElectLeader".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Generic

from purgatorio.broker.causes.cause import Cause, NoLeader, NotDecided
from purgatorio.broker.causes.words import MAX_NAMED, in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.cluster_change import ALL_TOPICS, ClusterChange, R
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, Topic
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import DelayedOperation, Purgatory


class DelayedDecision(DelayedOperation, Generic[R]):
    """Waits for a decision and for the image that shows it.

    At the deadline, a result that the image does not show becomes REQUEST_TIMED_OUT, though the image may show it
    later. Refused results, and results that the image shows, are answered as they are.
    """

    __slots__ = ("_change", "_refusal", "_reply", "_results", "_store")

    def __init__(self, change: ClusterChange[R], store: MetadataStore, reply: Callable[[Any], None]) -> None:
        super().__init__(max(0, change.timeout_ms))
        self._change = change
        self._store = store
        self._reply = reply
        self._results: Sequence[R] | None = None
        self._refusal: ErrorCode | None = None

    def decided(self, results: Sequence[R]) -> None:
        """Store the results of the committed decision; the caller then checks the operation."""
        self._results = results

    def refused(self, error_code: ErrorCode) -> None:
        """Store why the decision was not committed; the caller then checks the operation."""
        self._refusal = error_code

    def try_complete(self) -> bool:
        """Complete if the decision was refused, or is committed and the image shows its results."""
        is_seen = self._results is not None and next(self._unseen(self._results), None) is None
        return (self._refusal is not None or is_seen) and self.force_complete()

    def causes(self) -> Sequence[Cause]:
        """Return the first results that the image does not show yet; without a decision, that there is none."""
        return (NotDecided(),) if self._results is None else tuple(islice(self._unseen(self._results), MAX_NAMED))

    def _unseen(self, results: Sequence[R]) -> Iterator[Cause]:
        image = self._store.image
        return (unseen for result in results if (unseen := self._change.unseen(image, result)) is not None)

    def on_complete(self) -> None:
        """Answer with the results, or with the error code of the refusal; without either, REQUEST_TIMED_OUT."""
        if self._refusal is not None:
            self._reply(self._change.refuse(self._refusal))
        elif self._results is None:
            self._reply(self._change.refuse(ErrorCode.REQUEST_TIMED_OUT))
        else:
            image = self._store.image
            self._reply(self._change.respond([self._seen(image, result) for result in self._results]))

    def _seen(self, image: ClusterImage, result: R) -> R:
        """Return the result, or its timed-out form if the image does not show it."""
        unseen = self._change.unseen(image, result)
        return result if unseen is None else self._change.timed_out(result, in_words([unseen]))

    def on_shutdown(self) -> None:
        """Answer with NOT_CONTROLLER, which makes a client try another broker."""
        self._reply(self._change.refuse(ErrorCode.NOT_CONTROLLER))

    def on_error(self, error: Exception) -> None:
        """Answer with UNKNOWN_SERVER_ERROR; a committed decision stays committed."""
        self._reply(self._change.refuse(ErrorCode.UNKNOWN_SERVER_ERROR))


def leaderless(image: ClusterImage, created: Topic) -> NoLeader | None:
    """Return a partition of a created topic that has no leader yet; None if all have one, or the image lacks it."""
    topic = image.topics.get(created.name)
    if topic is not None and topic.topic_id == created.topic_id:
        for index, state in enumerate(topic.partitions):
            if state.leader == NO_LEADER:
                return NoLeader(TopicPartition(topic.name, index))
    return None


NEW_IMAGE: Final = "new image"


@dataclass(frozen=True, slots=True)
class TopicKey:
    """The watch key of requests that change a topic: checked when the topic is created, changed or deleted."""

    name: str

    def __str__(self) -> str:
        return self.name


class MetadataPurgatories:
    """The purgatories of one broker whose operations wait for new images.

    Args:
        topics: Kafka's "topic"; its watch keys are `TopicKey`s and `ALL_TOPICS`.
        elections: Kafka's "ElectLeader"; its watch keys are `TopicPartition`s and `ALL_TOPICS`.
    """

    def __init__(
        self,
        topics: Purgatory[DelayedDecision[Any]],
        elections: Purgatory[DelayedDecision[Any]],
        image: ClusterImage,
    ) -> None:
        self.topics = topics
        self.elections = elections
        self._image = image

    def image_changed(self, image: ClusterImage) -> None:
        """Check the operations of topics and partitions that a new image changes; images may have been skipped."""
        before, self._image = self._image, image
        if not self.topics.num_delayed and not self.elections.num_delayed:
            return
        for delta in changed_topics(before, image):
            self.topics.check_and_complete(TopicKey(delta.name), NEW_IMAGE)
            if self.elections.num_delayed:
                for tp in delta.changed_partitions:
                    self.elections.check_and_complete(tp, NEW_IMAGE)
        self.topics.check_and_complete(ALL_TOPICS, NEW_IMAGE)
        self.elections.check_and_complete(ALL_TOPICS, NEW_IMAGE)
