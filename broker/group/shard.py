"""One partition of ``__consumer_offsets`` that this broker leads, with the groups that it keeps."""

from __future__ import annotations

from collections.abc import Mapping

from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.memory import GroupMemory
from purgatorio.broker.group.shard_offsets import ShardOffsets
from purgatorio.broker.log.topic_partition import TopicPartition


class GroupShard(Shard):
    """The groups of one partition.

    The state is that of the log's end: records change it when they are appended, and answers leave when they are
    committed. Committed offsets are different: a client must never see one that could be lost, so they are applied when
    they are committed.

    Attributes:
        groups: the groups by id; `put` and `remove` change them.
        memory: what the groups keep; that of their broker counts it until the shard is unloaded.
        offsets: the committed offsets of the groups; a group without members may have only these, and no `Group`.
        deleting: the groups whose offsets are being deleted, which takes several steps.
    """

    __slots__ = ("_groups", "deleting", "groups", "memory", "offsets")

    def __init__(self, tp: TopicPartition, leader_epoch: int) -> None:
        super().__init__(tp, leader_epoch)
        self._groups: dict[str, Group] = {}
        self.groups: Mapping[str, Group] = self._groups
        self.memory = GroupMemory()
        self.offsets = ShardOffsets(self.memory)
        self.deleting: dict[str, None] = {}

    def put(self, group: Group) -> None:
        """Keep a group, in place of another one of its id."""
        before = self._groups.get(group.group_id)
        if before is group:
            return
        if before is not None:
            before.memory.leave()
        self._groups[group.group_id] = group
        group.memory.enter(self.memory)

    def remove(self, group_id: str) -> None:
        """Forget a group."""
        self._groups.pop(group_id).memory.leave()

    def group_ids(self) -> list[str]:
        """Return the ids of the groups, and of those that have only offsets, be it of open transactions."""
        groups, offsets = self.groups, self.offsets
        only_offsets = [each for each in offsets.groups if each not in groups]
        only_open = [each for each in offsets.transactional if each not in groups and each not in offsets.groups]
        return [*groups, *only_offsets, *only_open]
