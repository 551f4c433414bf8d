"""Which groups have to do with a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from purgatorio.broker.group.modern.modern_group import ModernGroup
from purgatorio.broker.metadata.image import Topic

G = TypeVar("G", bound=ModernGroup[Any])
K = TypeVar("K", str, bytes)


class TopicIndex(Generic[G, K]):
    """The groups of one kind and one broker by the topics that they have to do with; the topics need not exist.

    Args:
        topics_of: returns the topics of a group, by name or by id.
    """

    def __init__(self, topics_of: Callable[[G], frozenset[K]]) -> None:
        self._topics_of: Callable[[G], frozenset[K]] = topics_of
        self._groups: dict[K, dict[G, None]] = {}
        self._topics: dict[G, frozenset[K]] = {}

    def refresh(self, group: G) -> None:
        """Note the topics of a group that has to do with others, perhaps."""
        topics = self._topics_of(group)
        self._move(group, self._topics.get(group, frozenset()), topics)
        self._topics[group] = topics

    def forget(self, group: G) -> None:
        """Forget a group that this broker no longer coordinates, or that has ended."""
        self._move(group, self._topics.pop(group, frozenset()), frozenset())

    def groups_of(self, topic: K) -> Iterable[G]:
        """Return the groups of a topic."""
        return self._groups.get(topic, ())

    def _move(self, group: G, before: frozenset[K], after: frozenset[K]) -> None:
        for topic in sorted(before - after):
            groups = self._groups[topic]
            del groups[group]
            if not groups:
                del self._groups[topic]
        for topic in sorted(after - before):
            self._groups.setdefault(topic, {})[group] = None


def shape(topic: Topic | None) -> tuple[bytes, int] | None:
    """Return what an assignment depends on."""
    return None if topic is None else (topic.topic_id, len(topic.partitions))
