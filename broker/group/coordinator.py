"""The groups that one broker coordinates: loaded when it is elected, dropped when it is elected no more.

A group's coordinator is the leader of the partition of ``__consumer_offsets`` that its id is hashed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.coordinator.shards import Shards
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupReplay, GroupShard, ReplayRecord
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.replica.replica_manager import ReplicaManager

TIMERS_PER_STEP: Final = 500
"""The groups and members whose timers one step starts or stops, but for the last group: some milliseconds."""


class GroupLifecycle(Protocol):
    """The coordinator of one kind of group, told when groups come and go with their partition."""

    def loaded(self, shard: GroupShard, group: Group) -> None:
        """Start the timers of a group: this broker coordinates it from now on."""
        ...

    def unloaded(self, shard: GroupShard, group: Group) -> None:
        """Answer the group's parked requests with NOT_COORDINATOR, and stop its timers."""
        ...


class GroupCoordinator:
    """The shards of one broker, by partition of ``__consumer_offsets``.

    Args:
        replays: by type of key, what applies a record to a shard.
        lifecycles: by group type, who starts and stops a group's timers.
        wake: called when there is something to do; then `steps` is to be run.
    """

    def __init__(
        self,
        services: GroupServices,
        replicas: ReplicaManager,
        *,
        replays: Mapping[type, ReplayRecord],
        lifecycles: Mapping[str, GroupLifecycle],
        wake: Callable[[], None],
    ) -> None:
        self.services = services
        self._replays = replays
        self._lifecycles = lifecycles
        self._shards = Shards(
            OFFSETS_TOPIC,
            self,
            log=services.log,
            replicas=replicas,
            image=services.image,
            wake=wake,
        )
        self.steps = self._shards.steps

    def shard_of(self, group_id: str) -> GroupShard:
        """Return the shard of a group that this broker coordinates; the group need not exist.

        Raises:
            CoordinatorError: as `Shards.shard_of`.
        """
        return self._shards.shard_of(group_id)

    def shard_at(self, tp: TopicPartition) -> GroupShard:
        """Return the shard of a partition of ``__consumer_offsets`` that this broker leads.

        Raises:
            CoordinatorError: as `Shards.shard_at`.
        """
        return self._shards.shard_at(tp)

    @property
    def shards(self) -> Iterable[GroupShard]:
        """The shards of the partitions that this broker leads, in any state."""
        return self._shards

    def remove(self, shard: GroupShard, group: Group) -> None:
        """Forget a group whose tombstone is in the log, and stop its timers."""
        shard.remove(group.group_id)
        self._lifecycles[group.type].unloaded(shard, group)

    # --- what `Shards` asks of its keeper ---

    def new_shard(self, tp: TopicPartition, leader_epoch: int) -> GroupShard:
        """Return a shard without groups."""
        shard = GroupShard(tp, leader_epoch)
        shard.memory.enter(self.services.memory)
        return shard

    def replay(self, shard: GroupShard) -> GroupReplay:
        """Return what applies the records of the log to the shard."""
        return GroupReplay(shard, self._replays)

    def start_steps(self, shard: GroupShard) -> Iterator[None]:
        """Start the timers of the groups, in steps."""
        for group, is_end_of_step in _in_steps(shard.groups.values()):
            if shard.state is not ShardState.LOADING:
                return
            self._lifecycles[group.type].loaded(shard, group)
            if is_end_of_step:
                yield

    def unload_steps(self, shard: GroupShard) -> Iterator[None]:
        """Stop the timers of the groups, in steps."""
        for group, is_end_of_step in _in_steps(shard.groups.values()):
            self._lifecycles[group.type].unloaded(shard, group)
            if is_end_of_step:
                yield
        shard.memory.leave()


def _in_steps(groups: Iterable[Group]) -> Iterator[tuple[Group, bool]]:
    """Yield each group, and whether a step ends with it: by the number of groups and members."""
    count = 0
    for group in list(groups):
        count += 1 + group.member_count
        yield group, count >= TIMERS_PER_STEP
        if count >= TIMERS_PER_STEP:
            count = 0
