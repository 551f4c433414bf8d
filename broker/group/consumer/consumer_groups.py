"""The groups of the consumer protocol that one broker coordinates (KIP-848)."""

from __future__ import annotations

from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.expressions import ExpressionIndex, Expressions
from purgatorio.broker.group.consumer.heartbeats import ConsumerHeartbeats
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.metadata.image import ClusterImage


class ConsumerGroups:
    """Starts and stops the groups of the consumer protocol, and handles their members' requests.

    Attributes:
        expressions: the regular expressions that these groups subscribe by.
    """

    def __init__(self, services: GroupServices, coordinator: GroupCoordinator) -> None:
        self.expressions = Expressions(services)
        self._index = ExpressionIndex(self.expressions)
        self.heartbeats = ConsumerHeartbeats(services, coordinator, self._index, self.expressions)

    def loaded(self, shard: GroupShard, group: Group) -> None:
        """Start the timers of a group: this broker coordinates it from now on."""
        assert isinstance(group, ConsumerGroup)
        group.stale_expressions.update(dict.fromkeys(group.expressions))  # topics may have come and gone meanwhile
        self.heartbeats.start(shard, group)

    def unloaded(self, shard: GroupShard, group: Group) -> None:
        """Stop the timers of a group; the log answers what waits for the replicas."""
        assert isinstance(group, ConsumerGroup)
        self.heartbeats.end(group, group.members.values())

    def image_changed(self, image: ClusterImage) -> None:
        """Have groups look at their topics that were created, deleted, or have more partitions."""
        changed = self._index.image_changed(image)
        came_or_went = [each.name for each in changed if each.before is None or each.after is None]
        if came_or_went:
            self.expressions.topics_changed(came_or_went)
