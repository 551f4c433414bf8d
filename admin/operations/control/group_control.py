"""Changes groups: resets their offsets or deletes them, while they have no members; ends sessions of members.

A group's coordinator does it, as for the requests of Kafka's tools: it must run in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from purgatorio.admin.operations.control.coordinators import answer_of, coordinator_of, led_shards
from purgatorio.admin.operations.control.offset_resets import PartitionReset, ResetTarget, offsets_of
from purgatorio.broker.causes.kinds import HEARTBEAT
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.decisions import newest
from purgatorio.broker.cluster.errors import (
    NAMES_COMPARED,
    ClusterUnavailable,
    MayBeDone,
    NotThere,
    OperationRefused,
)
from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.delayed_heartbeat import MemberKey
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import DelayedOperation

GROUP_TIME_LIMIT_MS: Final = 10_000
"""Time that the replicas have for a change of a group; more than offsets.commit.timeout.ms, after which the coordinator
answers itself."""
OFFSETS_PER_COMMIT: Final = 500
"""Offsets that one batch resets: some milliseconds of the loop."""
OFFSET_COMMIT_VERSION: Final = 9
"""As which version of OffsetCommit the coordinator treats a reset."""
"""The purgatory in which each member has an operation that expires with its session."""
MEMBERS_NAMED: Final = 10
"""Members that a message names at most."""
_TRY_LATER: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class GroupControl:
    """Finds groups by their coordinator, resets their offsets and deletes them."""

    def __init__(self, cluster: BrokerCluster, image: Callable[[], ClusterImage]) -> None:
        self._cluster = cluster
        self._image = image

    def shards(self) -> Iterator[tuple[Broker, GroupShard]]:
        """Return the partitions of groups with their coordinators; loading ones too, but not those of former ones."""
        return led_shards(self._cluster.brokers, self._image(), lambda broker: broker.groups.coordinator.shards)

    def find(self, group_id: str) -> tuple[Broker, GroupShard]:
        """Return the coordinator of a group, and the partition that keeps it; the group need not exist.

        Raises:
            ClusterUnavailable: the coordinator does not run, or loads its groups.
            NotThere: there are no groups at all.
        """
        found = coordinator_of(
            self._cluster,
            self._image(),
            OFFSETS_TOPIC,
            "group",
            group_id,
            lambda broker: broker.groups.coordinator.shard_of(group_id),
        )
        if found is None:
            raise NotThere("there are no groups yet")
        return found

    def unknown(self, group_id: str) -> NotThere:
        """Return the refusal for a group that does not exist; it names one that is near."""
        known = (each for _, shard in self.shards() for each in shard.group_ids())
        return NotThere(f"there is no group {group_id}{nearest(group_id, islice(known, NAMES_COMPARED))}")

    # --- changes ---

    async def reset_offsets(
        self, group_id: str, topic: str, partition: int | None, target: ResetTarget
    ) -> list[PartitionReset]:
        """Commit offsets of a topic for a group without members; a group that does not exist comes to be by it.

        Args:
            partition: this partition only; None: all partitions of the topic.

        Raises:
            NotThere: there is no such topic or partition.
            OperationRefused: the group has members, or is a share group.
            ClusterUnavailable: the coordinator, or the leader of a partition, does not run, or the replicas do not
                follow in time; some partitions may have been reset.
        """
        targets = await offsets_of(self._cluster, self._image(), topic, partition, target)
        broker, shard = self.find(group_id)
        if isinstance(shard.groups.get(group_id), ShareGroup):
            raise OperationRefused(f"{group_id} is a share group, which commits no offsets")
        before = {number: shard.offsets.get(group_id, topic, number) for number in targets}
        resets = [
            PartitionReset(topic, number, None if (known := before[number]) is None else known.offset, after)
            for number, after in targets.items()
        ]
        for start in range(0, len(resets), OFFSETS_PER_COMMIT):
            found = self._image().topics[topic]
            await self._commit(broker, group_id, found, resets[start : start + OFFSETS_PER_COMMIT])
        return resets

    async def _commit(self, broker: Broker, group_id: str, topic: Topic, resets: Sequence[PartitionReset]) -> None:
        now_ms = self._cluster.clock.wall_ms()
        offsets = [
            (topic.name, each.partition, CommittedOffset(each.after, -1, "", now_ms, topic_id=topic.topic_id))
            for each in resets
        ]

        def commit(done: Committed) -> None:
            broker.groups.offsets.commit(group_id, offsets, done, version=OFFSET_COMMIT_VERSION, client="operator")

        await self.change(group_id, commit)

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, with its offsets.

        Raises:
            NotThere: there is no such group.
            OperationRefused: the group has members.
            ClusterUnavailable: the coordinator does not run, or the replicas do not follow in time.
        """
        broker, _ = self.find(group_id)
        await self.change(group_id, lambda done: broker.groups.cleaner.delete_group(group_id, done))

    async def change(self, group_id: str, change: Callable[[Committed], None]) -> None:
        """Make a change of a group, and wait until it is committed.

        Raises:
            NotThere: there is no such group.
            OperationRefused: it has members, or else why it is not changed.
            ClusterUnavailable: the coordinator cannot do it now.
            MayBeDone: the replicas do not follow in time.
        """
        what = f"the coordinator of {group_id}"
        try:
            error_code = await answer_of(change, self._cluster.clock, GROUP_TIME_LIMIT_MS, what)
        except CoordinatorError as error:
            raise self._refusal(group_id, error.error_code, str(error)) from error
        if error_code:
            raise self._refusal(group_id, error_code, f"the change was not replicated: {error_code.name}", MayBeDone)

    def _refusal(
        self,
        group_id: str,
        error_code: ErrorCode,
        message: str,
        later: type[ClusterUnavailable] = ClusterUnavailable,
    ) -> OperationRefused:
        if error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return self.unknown(group_id)
        if error_code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID):
            return OperationRefused(f"group {group_id} has members; stop its consumers first")
        return (later if error_code in _TRY_LATER else OperationRefused)(message)


# --- sessions of members ---


def expire_member(cluster: BrokerCluster, group: str, member: str | None) -> str:
    """End the session of a group's member now, as if its heartbeats had stayed away; return its member id.

    Args:
        member: its member id or its client id; None: the only member.

    Raises:
        NotThere: there is no such group with members, or no such member.
        AwaitsElection: the group's coordinator does not run, or loads its groups.
        OperationRefused: there is more than one such member; or the member waits for the coordinator's answer, which
            keeps it alive.
    """
    sessions: dict[str, DelayedOperation] = {}
    others: dict[str, None] = {}
    for key, operation in _sessions(cluster):
        if key.group_id == group:
            sessions[key.member_id] = operation
        else:
            others[key.group_id] = None
    if not sessions:
        GroupControl(cluster, lambda: newest(cluster.network).image).find(group)
        raise NotThere(f"group {group!r} has no members{nearest(group, islice(others, NAMES_COMPARED))}")
    chosen = _chosen(sessions, group, member)
    if not sessions[chosen].expire():
        raise OperationRefused(f"member {chosen} of {group} waits for its coordinator's answer, which keeps it alive")
    return chosen


def _sessions(cluster: BrokerCluster) -> Iterator[tuple[MemberKey, DelayedOperation]]:
    for broker in cluster.brokers:
        for purgatory in broker.purgatories:
            if purgatory.name != HEARTBEAT.purgatory:
                continue
            for parked in purgatory.operations(limit=purgatory.num_delayed):
                key, operation = parked.keys[0], purgatory.find(parked.id)
                if isinstance(key, MemberKey) and operation is not None:
                    yield key, operation


def _chosen(sessions: Mapping[str, DelayedOperation], group: str, member: str | None) -> str:
    """Return the member id that is meant: by itself, by its client id, or as the only one."""
    named = [each for each, session in sessions.items() if member in (None, each, session.client)]
    if len(named) == 1:
        return named[0]
    known = ", ".join(f"{each} (client {sessions[each].client})" for each in islice(sessions, MEMBERS_NAMED))
    further = len(sessions) - MEMBERS_NAMED
    told = f"; its members: {known}{f' and {further} more' if further > 0 else ''}"
    if not named:
        raise NotThere(f"group {group!r} has no member {member!r}{told}")
    raise OperationRefused(f"group {group!r} has {len(named)} such members{told}")
