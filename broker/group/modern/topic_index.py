"""Which groups subscribe to a topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from purgatorio.broker.group.modern.modern_group import ModernGroup
from purgatorio.broker.metadata.image import Topic

G = TypeVar("G", bound=ModernGroup[Any])


class TopicIndex(Generic[G]):
    """The groups of one kind and one broker by the topics that they subscribe to; the topics need not exist."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[G, None]] = {}
        self._topics: dict[G, frozenset[str]] = {}

    def refresh(self, group: G) -> None:
        """Note the topics of a group whose subscriptions have changed."""
        topics = group.subscribed_topics()
        self._move(group, self._topics.get(group, frozenset()), topics)
        self._topics[group] = topics

    def forget(self, group: G) -> None:
        """Forget a group that this broker no longer coordinates, or that has ended."""
        self._move(group, self._topics.pop(group, frozenset()), frozenset())

    def groups_of(self, topic: str) -> Iterable[G]:
        """Return the groups that subscribe to a topic."""
        return self._groups.get(topic, ())

    def _move(self, group: G, before: frozenset[str], after: frozenset[str]) -> None:
        for name in sorted(before - after):
            groups = self._groups[name]
            del groups[group]
            if not groups:
                del self._groups[name]
        for name in sorted(after - before):
            self._groups.setdefault(name, {})[group] = None


def shape(topic: Topic | None) -> tuple[bytes, int] | None:
    """Return what an assignment depends on."""
    return None if topic is None else (topic.topic_id, len(topic.partitions))
