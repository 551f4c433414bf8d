"""The groups that one broker coordinates: loaded when it is elected, dropped when it is elected no more.

A group's coordinator is the leader of the partition of ``__consumer_offsets`` that its id is hashed to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from purgatorio.broker.coordinator.coordinator_log import NewRecord, ignore
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.coordinator.shards import Shards
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.consumer_offsets import encode_key
from purgatorio.protocol.errors import ErrorCode


class GroupLifecycle(Protocol):
    """The coordinator of one kind of group, as groups come and go with their partition."""

    def loaded(self, shard: GroupShard, group: Group) -> None:
        """Start the timers of a group: this broker coordinates it from now on."""
        ...

    def unloaded(self, shard: GroupShard, group: Group) -> None:
        """Answer the group's parked requests with NOT_COORDINATOR, and stop its timers."""
        ...


class GroupCoordinator(Shards[GroupShard]):
    """The shards of one broker, by partition of ``__consumer_offsets``.

    Args:
        replays: by type of key, what applies a record to a shard.

    Attributes:
        lifecycles: by group type, the one that starts and stops a group's timers; set before groups are loaded.
    """

    def __init__(
        self,
        services: GroupServices,
        replicas: ReplicaManager,
        *,
        replays: Mapping[type, ReplayRecord],
    ) -> None:
        super().__init__(OFFSETS_TOPIC, log=services.log, replicas=replicas, image=services.image, work=services.work)
        self.services = services
        self.lifecycles: Mapping[str, GroupLifecycle] = {}
        self._replays = replays

    def shard_of_named(self, group_id: str) -> GroupShard:
        """Return the shard of a group, as `shard_of`.

        Raises:
            CoordinatorError: INVALID_GROUP_ID: the id is empty; or this broker does not coordinate the group.
        """
        if not group_id:
            raise CoordinatorError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return self.shard_of(group_id)

    def discard(self, shard: GroupShard, group: Group) -> bool:
        """Write the tombstones of an empty group, forget it, its history too, but not its offsets; stop its timers.

        The next expiry finds a group again whose tombstones are not committed.

        Returns:
            Whether the tombstones are in the log.
        """
        records = [NewRecord(encode_key(key), None) for key in group.record_keys()]
        is_appended = self.services.log.append(shard.tp, records, ignore)
        if is_appended:
            shard.remove(group.group_id)
            self.lifecycles[group.type].unloaded(shard, group)
            self.services.history.forget(group.group_id)
        return is_appended

    def new_shard(self, tp: TopicPartition, leader_epoch: int) -> GroupShard:
        shard = GroupShard(tp, leader_epoch, self._replays)
        shard.memory.enter(self.services.memory)
        return shard

    def start_steps(self, shard: GroupShard) -> Steps:
        for group in list(shard.groups.values()):
            if shard.state is not ShardState.LOADING:
                return
            self.lifecycles[group.type].loaded(shard, group)
            yield _timers_cost(group)

    def unload_steps(self, shard: GroupShard) -> Steps:
        for group in list(shard.groups.values()):
            self.lifecycles[group.type].unloaded(shard, group)
            self.services.history.forget(group.group_id)
            yield _timers_cost(group)
        shard.memory.leave()


def _timers_cost(group: Group) -> int:
    """Return what it costs to start or stop the timers of a group and its members (see `LongWork`)."""
    return 8 * (1 + group.member_count)
