"""The topics that a broker knows, as fault rules need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage


class ImageTopics:
    """The topics of a broker's image (see `KnownTopics`).

    Args:
        image: returns the broker's current image.
        of_share_session: see `KnownTopics`.
    """

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        of_share_session: Callable[[str, str], Iterable[tuple[bytes, TopicPartition]]],
    ) -> None:
        self._image = image
        self.of_share_session = of_share_session

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic's id, or None."""
        topic = self._image().topic_by_id(topic_id)
        return None if topic is None else topic.name

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists."""
        return self._image().partition(topic, partition) is not None
