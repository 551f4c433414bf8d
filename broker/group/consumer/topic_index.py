"""Which groups consume a topic, so that a changed topic costs its own groups only."""

from __future__ import annotations

from collections.abc import Iterable

from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.expressions import Expressions


class TopicIndex:
    """The consumer groups of one broker by the topics that they subscribe to; the topics need not exist.

    Args:
        expressions: told by which regular expressions each group subscribes.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._groups: dict[str, dict[ConsumerGroup, None]] = {}
        self._topics: dict[ConsumerGroup, frozenset[str]] = {}

    def refresh(self, group: ConsumerGroup) -> None:
        """Note the topics of a group whose subscriptions have changed."""
        topics = frozenset(group.counts.names).union(*(each.topics for each in group.expressions.values()))
        self._move(group, self._topics.get(group, frozenset()), topics)
        self._topics[group] = topics
        self._expressions.use(group, (*group.counts.expressions, *group.expressions))

    def forget(self, group: ConsumerGroup) -> None:
        """Forget a group that this broker no longer coordinates, or that has ended."""
        self._move(group, self._topics.pop(group, frozenset()), frozenset())
        self._expressions.use(group, ())

    def groups_of(self, topic: str) -> Iterable[ConsumerGroup]:
        """Return the groups that subscribe to a topic."""
        return self._groups.get(topic, ())

    def _move(self, group: ConsumerGroup, before: frozenset[str], after: frozenset[str]) -> None:
        for name in sorted(before - after):
            groups = self._groups[name]
            del groups[group]
            if not groups:
                del self._groups[name]
        for name in sorted(after - before):
            self._groups.setdefault(name, {})[group] = None
