"""The share groups that one broker coordinates (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.modern.modern_group import SubscriptionIndex, TopicIndex
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.delayed_initialization import AssignmentKey
from purgatorio.broker.group.share.deletion import StateDeletion
from purgatorio.broker.group.share.heartbeats import ShareHeartbeats
from purgatorio.broker.group.share.initialization import Initializations
from purgatorio.broker.group.share.offsets import ShareOffsets
from purgatorio.broker.group.share.records import ShareWriter
from purgatorio.broker.group.share.share_group import ShareGroup, ShareMemberSessions
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.long_work import Steps

LOADING_MS: Final = 100
"""From an attempt to change a group that is still being loaded to the next one."""


class ShareGroups:
    """Starts and stops share groups, and handles the requests about them.

    Args:
        begin: takes the first of some steps now, and the others in turns of the event loop.

    Attributes:
        heartbeats: the requests of members.
        offsets: those about start offsets.
        deletion: deletes the states of groups.
    """

    def __init__(
        self,
        services: GroupServices,
        coordinator: GroupCoordinator,
        begin: Callable[[Steps], None],
    ) -> None:
        self._services = services
        self._coordinator = coordinator
        self._wake = services.work.whenever_woken(self.steps)
        subscriptions = SubscriptionIndex[ShareGroup](ShareGroup.subscribed_topics)
        self._states = TopicIndex[ShareGroup, bytes](lambda group: group.states.topic_ids)
        sessions = ShareMemberSessions(services)
        writer = ShareWriter(services, sessions, subscriptions, self._states)
        self._subscriptions = subscriptions
        self._initializations = Initializations(services, writer, begin)
        self.heartbeats = ShareHeartbeats(services, coordinator, sessions, writer, self._initializations)
        self.deletion = StateDeletion(services, writer)
        self.offsets = ShareOffsets(services, coordinator, writer, self._initializations, self.deletion)
        self._work: dict[ShareGroup, GroupShard] = {}  # the groups with states of topics that do not exist any more

    def loaded(self, shard: GroupShard, group: Group) -> None:
        """Start the sessions of a group's members: this broker coordinates it from now on."""
        assert isinstance(group, ShareGroup)
        self.heartbeats.start(shard, group)
        self._states.refresh(group)
        if any(self._services.image().topic_by_id(each) is None for each in group.states.topic_ids):
            self._forget_later(shard, group)  # topics were deleted before this broker came

    def unloaded(self, shard: GroupShard, group: Group) -> None:
        """Stop the sessions of a group's members, and answer the heartbeats that wait with NOT_COORDINATOR."""
        assert isinstance(group, ShareGroup)
        self.heartbeats.end(group, group.members.values())
        self._states.forget(group)
        self._initializations.unloaded(group)
        self._services.share_purgatory().check_and_complete(AssignmentKey(group.group_id), "group unloaded")

    # --- topics ---

    def image_changed(self, image: ClusterImage) -> None:
        """Have groups look at topics that were created, deleted, or have more partitions."""
        bereft: dict[ShareGroup, None] = {}
        for delta in self._subscriptions.image_changed(image):
            if delta.before is not None and (delta.after is None or delta.after.topic_id != delta.before.topic_id):
                bereft.update(dict.fromkeys(self._states.groups_of(delta.before.topic_id)))
        for group in bereft:
            for shard in self._coordinator.shards:
                if shard.groups.get(group.group_id) is group:
                    self._forget_later(shard, group)

    def _forget_later(self, shard: GroupShard, group: ShareGroup) -> None:
        self._work[group] = shard
        self._wake()

    def steps(self) -> Steps:
        """Delete the states of topics that do not exist any more, a group in each turn."""
        while self._work:
            group, shard = self._work.popitem()
            if shard.is_active and shard.groups.get(group.group_id) is group:
                image = self._services.image()
                gone = [each for each in sorted(group.states.topic_ids) if image.topic_by_id(each) is None]
                self.deletion.forget_topics(shard, group, gone)
            elif shard.is_kept:
                self._services.timer.call_later(LOADING_MS, self._forget_later, shard, group)
            yield 0
