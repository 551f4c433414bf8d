"""The groups that one broker coordinates: loaded when it is elected, dropped when it is elected no more.

A group's coordinator is the leader of the partition of ``__consumer_offsets`` that its id is hashed to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from purgatorio.broker.group.config import OFFSETS_TOPIC
from purgatorio.broker.group.errors import GroupError
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.loading import Replay, load_steps
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard, ShardState
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.logger import get_logger
from purgatorio.protocol.consumer_offsets import coordinator_partition
from purgatorio.protocol.errors import ErrorCode

logger = get_logger(__name__)

TIMERS_PER_STEP: Final = 500
"""The groups and members whose timers one step starts or stops, but for the last group: some milliseconds."""
RETRY_MS: Final = 100
"""From a failed wait for the replicas of a loaded partition to the next."""


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
        services: the log, the clock, the purgatories.
        replicas: this broker's replicas; tells which partitions it leads.
        replays: by type of key, what applies a record to a shard.
        lifecycles: by group type, who starts and stops a group's timers.
        wake: called when there is something to do; then `steps` is to be run.
    """

    def __init__(
        self,
        services: GroupServices,
        replicas: ReplicaManager,
        *,
        replays: Mapping[type, Replay],
        lifecycles: Mapping[str, GroupLifecycle],
        wake: Callable[[], None],
    ) -> None:
        self.services = services
        self._replicas = replicas
        self._replays = replays
        self._lifecycles = lifecycles
        self._wake = wake
        self._shards: dict[TopicPartition, GroupShard] = {}
        self._work: deque[Iterator[None]] = deque()
        replicas.add_leadership_listener(self)

    # --- the shard of a group ---

    def shard_of(self, group_id: str) -> GroupShard:
        """Return the shard of a group that this broker coordinates; the group need not exist.

        Raises:
            GroupError: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS; COORDINATOR_NOT_AVAILABLE while there is no
                topic for groups.
        """
        topic = self.services.image().topics.get(OFFSETS_TOPIC)
        if topic is None:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"topic {OFFSETS_TOPIC} does not exist yet")
        tp = TopicPartition(OFFSETS_TOPIC, coordinator_partition(group_id, len(topic.partitions)))
        shard = self._shards.get(tp)
        try:
            # Also checks the lease: a broker that was fenced must not answer with offsets of yesterday.
            self._replicas.lookup.find(tp).check_leader(-1)
        except PartitionError as error:
            raise GroupError(ErrorCode.NOT_COORDINATOR, str(error)) from error
        if shard is None or not shard.is_active:
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the groups of {tp} are being loaded")
        return shard

    @property
    def shards(self) -> Iterable[GroupShard]:
        """The shards of the partitions that this broker leads, in any state."""
        return self._shards.values()

    # --- leadership (see `LeadershipListener`) ---

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        """Load the groups of a partition that this broker leads from now on."""
        if tp.topic != OFFSETS_TOPIC:
            return
        self.resigned(tp)
        shard = self._shards[tp] = GroupShard(tp, leader_epoch)
        partition = self._replicas.lookup.known(tp)
        if partition is not None and partition.log.log_end_offset == 0:
            shard.state = ShardState.ACTIVE  # a new topic: the first member need not wait for a turn of the loop
            return
        self._work.append(self._load(shard))
        self._wake()

    def resigned(self, tp: TopicPartition) -> None:
        """Drop the groups of a partition: their parked requests are answered with NOT_COORDINATOR."""
        shard = self._shards.pop(tp, None)
        if shard is None:
            return
        shard.state = ShardState.UNLOADED
        if shard.groups:
            self._work.append(self._unload(shard))
            self._wake()

    # --- loading and unloading ---

    def remove(self, shard: GroupShard, group: Group) -> None:
        """Forget a group whose tombstone is in the log, and stop its timers."""
        del shard.groups[group.group_id]
        self._lifecycles[group.type].unloaded(shard, group)

    def steps(self) -> Iterator[None]:
        """Load and unload what waits for it, in steps between which the loop does its other work."""
        while self._work:
            yield from self._work.popleft()
            yield

    def _load(self, shard: GroupShard) -> Iterator[None]:
        partition = self._replicas.lookup.known(shard.tp)
        if partition is not None:
            for _ in load_steps(shard, partition.log, self._replays):
                if shard.state is ShardState.UNLOADED:
                    return
                yield
            self._start_when_committed(shard)

    def _start_when_committed(self, shard: GroupShard) -> None:
        """Begin to answer once everything that was loaded is committed: before that it could be lost."""

        def committed(error_code: ErrorCode) -> None:
            if shard.state is not ShardState.LOADING:
                return
            if error_code:
                if error_code != ErrorCode.NOT_COORDINATOR:  # that the broker stops, or has no lease, is logged already
                    logger.warning("groups wait for their replicas", partition=str(shard.tp), error=error_code.name)
                self.services.timer.call_later(RETRY_MS, self._start_when_committed, shard)
                return
            self._work.append(self._start(shard))
            self._wake()

        if shard.state is ShardState.LOADING:
            self.services.log.when_committed(shard.tp, committed)

    def _start(self, shard: GroupShard) -> Iterator[None]:
        """Start the timers of the groups, then answer requests."""
        for group, is_end_of_step in _in_steps(shard.groups.values()):
            if shard.state is not ShardState.LOADING:
                return
            self._lifecycles[group.type].loaded(shard, group)
            if is_end_of_step:
                yield
        if shard.state is ShardState.LOADING:
            shard.state = ShardState.ACTIVE
            logger.info("groups loaded", partition=str(shard.tp), groups=len(shard.groups))

    def _unload(self, shard: GroupShard) -> Iterator[None]:
        for group, is_end_of_step in _in_steps(shard.groups.values()):
            self._lifecycles[group.type].unloaded(shard, group)
            if is_end_of_step:
                yield


def _in_steps(groups: Iterable[Group]) -> Iterator[tuple[Group, bool]]:
    """Yield each group, and whether a step ends with it: by the number of groups and members."""
    count = 0
    for group in list(groups):
        count += 1 + group.member_count
        yield group, count >= TIMERS_PER_STEP
        if count >= TIMERS_PER_STEP:
            count = 0
