"""The purgatories of requests that change the cluster; a new image checks the requests of changed topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from purgatorio.broker.metadata.cluster_change import ALL_TOPICS
from purgatorio.broker.metadata.delayed_decision import DelayedDecision
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.purgatory import Purgatory

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
        image: this broker's current image.
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
