"""The replicas that images assign to one broker, and their roles: leader, or follower of a leader.

One image may change thousands of partitions (a topic is created, a broker dies), and the brokers of a process apply it
one after the other. So changed partitions wait in a queue, and a step takes some of them. A partition takes its role
from the newest image when its turn comes. To the cluster this is a broker that sees images later for some partitions,
as any broker may. Replicas that the broker has come before those that it gets, so that a lost leadership ends first. A
broker that was fenced leads again when the queue is empty (`BrokerLifecycleManager`): in the queue may be leaderships
that it lost meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.broker_lifecycle import Lease
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.observer import LeadershipListener, ReplicaObserver
from purgatorio.broker.replica.partition import Partition
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)

ROLES_PER_STEP: Final = 50
"""The most partitions that one step gives their roles: about a millisecond. The brokers of a process take their steps
in the same turns of the loop, some turns apart."""

MAX_CONFIGS_KEPT: Final = 1_000
"""The most different configs of topics that are kept parsed, for all their partitions to share."""


class FollowerAssignment:
    """The partitions that a follower should fetch from this broker; replaced by another object when they change."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


class Refollowed:
    """Changes of the partitions that this broker follows from one leader.

    Attributes:
        begun: the replicas that it follows from now on, or in another leader epoch.
        ended: those that it no longer follows.
    """

    __slots__ = ("begun", "ended")

    def __init__(self) -> None:
        self.begun: dict[TopicPartition, Partition] = {}
        self.ended: dict[TopicPartition, Partition] = {}


class ReplicaRoles:
    """Gives the replicas of one broker the roles that images assign to them.

    Args:
        lookup: gets the newest image; its replicas are those that this class adds and removes.
        new_log: makes the log of a new replica.
        log_defaults: the defaults of topic configs.
        clock: monotonic time for the lag of followers.
        lease: while this broker certainly holds it, it may act as a leader.
        observer: notified of partitions that this broker leads no more.

    Attributes:
        roles_per_step: the most partitions that one step gives their roles.
        assignments: by follower, the partitions that it should fetch from this broker.
        followed: by leader, the partitions that this broker follows from it.
        look_in_tier: looks what the tier has of a partition whose empty replica is elected its leader; until then it
            does not lead. None: there is no tier.
    """

    def __init__(
        self,
        lookup: ReplicaLookup,
        *,
        new_log: Callable[[TopicPartition, LogConfig], Log],
        log_defaults: LogConfig,
        clock: Clock,
        lease: Lease,
        observer: ReplicaObserver,
    ) -> None:
        self.roles_per_step = ROLES_PER_STEP
        self.assignments: dict[int, FollowerAssignment] = {}
        self.followed: dict[int, dict[TopicPartition, Partition]] = {}
        self.look_in_tier: Callable[[Partition], None] | None = None
        self._broker_id = lookup.broker_id
        self._partitions = lookup.partitions
        self._lookup = lookup
        self._new_log = new_log
        self._log_defaults = log_defaults
        self._clock = clock
        self._lease = lease
        self._observer = observer
        self._listeners: list[LeadershipListener] = []
        self._held: deque[TopicPartition] = deque()
        self._added: deque[TopicPartition] = deque()
        self._queued: set[TopicPartition] = set()  # those in the two queues; never walked
        self._configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._reassigned: dict[int, int] = {}  # by follower, by how much the number of its partitions changes
        self._refollowed: dict[int, Refollowed] = {}
        self._filled: dict[TopicPartition, tuple[bytes, Log]] = {}

    def begin_with(self, tp: TopicPartition, topic: Topic) -> Log:
        """Make the log with which a replica of this topic begins when an image assigns it."""
        log = self._new_log(tp, self._config_of(topic))
        self._filled[tp] = topic.topic_id, log
        return log

    def add_listener(self, listener: LeadershipListener) -> None:
        """Notify a listener from now on when this broker gains or loses the leadership of a partition."""
        self._listeners.append(listener)

    @property
    def is_current(self) -> bool:
        """Whether all replicas have the roles of the newest image."""
        return not self._queued

    def take_refollowed(self) -> Mapping[int, Refollowed]:
        """Return by leader what has changed in `followed` since the last call."""
        refollowed, self._refollowed = self._refollowed, {}
        return refollowed

    def note(self, image: ClusterImage) -> None:
        """Queue the replicas whose partitions an image changes."""
        before, self._lookup.image = self._lookup.image, image
        for delta in changed_topics(before, image):
            states = () if delta.after is None else delta.after.partitions
            for tp in delta.changed_partitions:
                if tp in self._queued:
                    continue
                if tp in self._partitions:
                    self._queued.add(tp)
                    self._held.append(tp)
                elif tp.partition < len(states) and self._broker_id in states[tp.partition].replicas:
                    self._queued.add(tp)
                    self._added.append(tp)

    def renew(self, tp: TopicPartition) -> None:
        """Queue a replica, which may take a role now that it did not take before."""
        if tp in self._partitions and tp not in self._queued:
            self._queued.add(tp)
            self._held.append(tp)

    def step(self, incarnation: BrokerIncarnation) -> list[TopicPartition]:
        """Give some of the queued replicas their roles, and return the partitions that changed here.

        Args:
            incarnation: this broker's, for new replicas.
        """
        changed = []
        for _ in range(min(self.roles_per_step, len(self._queued))):
            tp = self._held.popleft() if self._held else self._added.popleft()
            self._queued.discard(tp)
            try:
                if self._reconcile(tp, incarnation):
                    changed.append(tp)
            except Exception:
                # A bug, or a listener's: the other partitions must get their roles all the same.
                logger.exception("a replica did not get its role", broker=self._broker_id, partition=str(tp))
        return changed

    def take_reassigned(self) -> list[int]:
        """Renew the assignments of the followers whose partitions have changed since the last call; return these."""
        reassigned, self._reassigned = self._reassigned, {}
        for follower, more in reassigned.items():
            self.assignments[follower] = FollowerAssignment(len(self.assignments.get(follower, ())) + more)
        return list(reassigned)

    def reconfigure(self, log_defaults: LogConfig) -> None:
        """Use these defaults of topic configs from now on; in all logs."""
        self._log_defaults = log_defaults
        self._configs.clear()
        for tp, partition in self._partitions.items():
            image = self._lookup.image
            topic = None if image is None else image.topics.get(tp.topic)
            if topic is not None:
                partition.log.config = self._config_of(topic)

    # --- one replica ---

    def _reconcile(self, tp: TopicPartition, incarnation: BrokerIncarnation) -> bool:
        """Add, keep or remove a replica as the newest image says; returns whether there was or is one."""
        image = self._lookup.image
        assert image is not None, "a replica is queued by an image"
        topic, state = image.topics.get(tp.topic), image.partition(*tp)
        assigned = topic is not None and state is not None and self._broker_id in state.replicas
        partition = self._partitions.get(tp)
        was_there = partition is not None
        if partition is not None and (topic is None or not assigned or partition.topic_id != topic.topic_id):
            self._remove(partition)
            partition = None
        filled = self._take_filled(tp, topic if assigned else None) if self._filled else None
        if topic is None or state is None or not assigned:
            return was_there
        config = self._config_of(topic)
        if partition is None:
            log = self._new_log(tp, config) if filled is None else filled
            partition = Partition(tp, topic.topic_id, incarnation, log, may_lead=self._lease.may_lead)
            self._partitions[tp] = partition
        if partition.log.config is not config:
            partition.log.config = config
        self._take_role(partition, state)
        return True

    def _take_filled(self, tp: TopicPartition, topic: Topic | None) -> Log | None:
        """Return the log with which a replica begins, if there is one and it is of this topic."""
        topic_id, log = self._filled.pop(tp, (b"", None))
        if log is None or (topic is not None and topic.topic_id == topic_id):
            return log
        log.close()  # the topic was deleted meanwhile
        return None

    def _config_of(self, topic: Topic) -> LogConfig:
        """Return the configuration of a topic's logs; topics with the same configs share one."""
        if not topic.configs:
            return self._log_defaults
        key = tuple(sorted(topic.configs.items()))
        config = self._configs.get(key)
        if config is None:
            if len(self._configs) >= MAX_CONFIGS_KEPT:
                del self._configs[next(iter(self._configs))]
            config = self._configs[key] = LogConfig.from_strings(topic.configs, self._log_defaults)
        return config

    def _remove(self, partition: Partition) -> None:
        tp = partition.tp
        del self._partitions[tp]
        partition.log.close()
        self._observer.partition_removed(tp)
        self._count_followers(partition.followers, -1)
        self._follow(partition, _followed_by(partition), NO_LEADER)
        if partition.is_leader:
            self._resigned(tp)

    def _take_role(self, partition: Partition, state: PartitionState) -> None:
        """Give a replica its role, and notify the listeners of a leadership that was gained or lost."""
        tp = partition.tp
        was_leader, in_epoch = partition.is_leader, partition.leader_epoch
        followed, followers = _followed_by(partition), partition.followers
        if self.look_in_tier is not None and self._lacks_what_the_tier_has(partition, state):
            self.look_in_tier(partition)
            state = replace(state, leader=NO_LEADER)
        partition.apply_state(state, self._clock.now_ms())
        if partition.followers.keys() != followers.keys():
            self._count_followers(followers, -1)
            self._count_followers(partition.followers, 1)
        if followed != _followed_by(partition) or partition.leader_epoch != in_epoch:
            self._follow(partition, followed, _followed_by(partition))
        if partition.is_leader:
            if not was_leader or partition.leader_epoch != in_epoch:
                for listener in self._listeners:
                    listener.elected(tp, partition.leader_epoch)
        elif was_leader:
            self._observer.partition_removed(tp)
            self._resigned(tp)

    def _lacks_what_the_tier_has(self, partition: Partition, state: PartitionState) -> bool:
        """Whether a replica is to lead, and is empty, maybe since its broker was restarted: the tier is to be asked."""
        log, remote = partition.log, partition.remote
        if state.leader != self._broker_id or state.leader_epoch == 0 or not log.is_tiered or log.log_end_offset > 0:
            return False
        return remote is None or remote.listed_in_epoch != state.leader_epoch

    def _resigned(self, tp: TopicPartition) -> None:
        for listener in self._listeners:
            listener.resigned(tp)

    def _count_followers(self, followers: Iterable[int], more: int) -> None:
        """Count a partition in, or out of, what its followers should fetch from this broker."""
        for follower in followers:
            self._reassigned[follower] = self._reassigned.get(follower, 0) + more

    def _follow(self, partition: Partition, before: int, after: int) -> None:
        """Move a partition from what is followed from one leader to what is followed from another; -1: none."""
        tp = partition.tp
        if before >= 0:
            del self.followed[before][tp]
            changes = self._refollowed.setdefault(before, Refollowed())
            changes.ended.setdefault(tp, partition)
            changes.begun.pop(tp, None)
        if after >= 0:
            self.followed.setdefault(after, {})[tp] = partition
            self._refollowed.setdefault(after, Refollowed()).begun[tp] = partition


def _followed_by(partition: Partition) -> int:
    """Return the leader that a replica follows; -1 if it leads itself, or there is no leader."""
    return NO_LEADER if partition.is_leader else partition.leader
