"""How many members of a group subscribe to what."""

from __future__ import annotations

from purgatorio.protocol.consumer_offsets import ConsumerGroupMemberMetadataValue


class SubscriptionCounts:
    """The topics that members name, and the regular expressions, each with the number of those members.

    Attributes:
        names: by topic; a topic need not exist.
        expressions: by regular expression.
    """

    __slots__ = ("expressions", "names")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.expressions: dict[str, int] = {}

    def copy(self) -> SubscriptionCounts:
        """Return counts that can be changed without changing these."""
        copied = SubscriptionCounts()
        copied.names, copied.expressions = dict(self.names), dict(self.expressions)
        return copied

    def add(self, subscription: ConsumerGroupMemberMetadataValue) -> None:
        """Count a member in."""
        self._change(subscription, 1)

    def remove(self, subscription: ConsumerGroupMemberMetadataValue) -> None:
        """Count a member out."""
        self._change(subscription, -1)

    def _change(self, subscription: ConsumerGroupMemberMetadataValue, change: int) -> None:
        for name in dict.fromkeys(subscription.subscribed_topic_names):
            _change(self.names, name, change)
        if subscription.subscribed_topic_regex:
            _change(self.expressions, subscription.subscribed_topic_regex, change)


def _change(counts: dict[str, int], name: str, change: int) -> None:
    counts[name] = counts.get(name, 0) + change
    if counts[name] <= 0:
        del counts[name]
