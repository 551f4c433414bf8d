"""The purgatories of requests that change the cluster; a new image checks the requests of changed topics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.cluster_change import ALL_TOPICS
from purgatorio.broker.metadata.delayed_decision import DelayedDecision
from purgatorio.broker.metadata.image import ClusterImage, Topic
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
        for name in dict.fromkeys((*before.topics, *image.topics)):
            old, new = before.topics.get(name), image.topics.get(name)
            if old is not new:
                self.topics.check_and_complete(TopicKey(name), NEW_IMAGE)
                for tp in _changed_partitions(name, old, new):
                    self.elections.check_and_complete(tp, NEW_IMAGE)
        self.topics.check_and_complete(ALL_TOPICS, NEW_IMAGE)
        self.elections.check_and_complete(ALL_TOPICS, NEW_IMAGE)


def _changed_partitions(name: str, old: Topic | None, new: Topic | None) -> Iterator[TopicPartition]:
    before = () if old is None else old.partitions
    after = () if new is None else new.partitions
    for index, (was, now) in enumerate(itertools.zip_longest(before, after)):
        if was is not now:  # an image shares the rows that it did not change with the one before
            yield TopicPartition(name, index)
