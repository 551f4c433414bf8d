"""The group coordinator of one broker, put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, TypeGuard, TypeVar

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_groups import ClassicGroups
from purgatorio.broker.group.classic.member import JoinReply, SyncReply
from purgatorio.broker.group.classic.records import replay_group
from purgatorio.broker.group.consumer.classic_members import ClassicMembers
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.consumer_groups import ConsumerGroups
from purgatorio.broker.group.consumer.records import REPLAYS as CONSUMER_REPLAYS
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.group_cleaner import GroupCleaner
from purgatorio.broker.group.offset_manager import OffsetManager, OffsetWriter
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.broker.group.share.records import REPLAYS as SHARE_REPLAYS
from purgatorio.broker.group.share.share_groups import ShareGroups
from purgatorio.broker.group.txn_offset_manager import TxnOffsetManager
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import RequestContext
from purgatorio.protocol.consumer_offsets import GroupMetadataKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest
from purgatorio.protocol.messages.leave_group import MemberIdentity
from purgatorio.protocol.messages.sync_group import SyncGroupRequest

G = TypeVar("G", bound=Group)


class ClassicRequests:
    """Finds the group of a request of the classic protocol, once, and hands both to the class of groups of its kind.

    Most are classic groups. While a group goes from one protocol to the other (KIP-848), its members of the classic
    protocol are in a consumer group. Every method raises CoordinatorError with the error code of the answer.
    """

    def __init__(self, coordinator: GroupCoordinator, groups: ClassicGroups, members: ClassicMembers) -> None:
        self._coordinator = coordinator
        self._groups = groups
        self._members = members

    def join(self, ctx: RequestContext, request: JoinGroupRequest, reply: JoinReply) -> None:
        """Let a member join; answers now, or when its rebalance is complete."""
        shard, group = self._find(request.group_id)
        if _has_consumers(group):
            self._members.join(shard, group, ctx, request, reply)
        else:
            self._groups.join(shard, group, ctx, request, reply)

    def sync(self, ctx: RequestContext, request: SyncGroupRequest, reply: SyncReply) -> None:
        """Give a member its assignment; answers now, or when the assignment is committed."""
        shard, group = self._find(request.group_id)
        if _has_consumers(group):
            self._members.sync(shard, group, ctx, request, reply)
        else:
            self._groups.sync(group, request, reply, client=ctx.client_id or "")

    def heartbeat(self, request: HeartbeatRequest) -> None:
        """Count a sign of life of a member; REBALANCE_IN_PROGRESS if the member has to join again."""
        shard, group = self._find(request.group_id)
        if _has_consumers(group):
            self._members.heartbeat(shard, group, request)
        else:
            self._groups.heartbeat(group, request)

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
        """Remove members; returns an error code for each. If this raises, none was removed."""
        shard, group = self._find(group_id)
        if _has_consumers(group):
            return self._members.leave(shard, group, leaving)
        return self._groups.leave(group, leaving)

    def _find(self, group_id: str) -> tuple[GroupShard, Group | None]:
        shard = self._coordinator.shard_of_named(group_id)
        return shard, shard.groups.get(group_id)


def _has_consumers(group: Group | None) -> TypeGuard[ConsumerGroup]:
    """Whether it is a consumer group with members. An empty one gives way to the protocol of the member that comes."""
    return isinstance(group, ConsumerGroup) and not group.is_empty


EMPTY: Final = "Empty"
"""The state of a group that has only offsets."""


class Groups:
    """The group coordinator of one broker.

    Attributes:
        coordinator: the groups that this broker coordinates.
        classic: the requests of members of the classic protocol.
        consumer: the groups of the consumer protocol (KIP-848).
        share: the share groups (KIP-932).
        rebalance_purgatory: the joins and syncs that wait for members.
        heartbeat_purgatory: the sessions of members; its time is that by which they end.
        memory: the bytes that the groups keep of requests.
        history: the last rebalances of the groups.
    """

    def __init__(self, services: GroupServices, replicas: ReplicaManager) -> None:
        self.config = services.config
        self.clock = services.clock
        self.memory = services.memory
        self.history = services.history
        self.rebalance_purgatory = services.rebalance_purgatory
        self.heartbeat_purgatory = services.heartbeat_purgatory
        self._image = services.image
        self._work = services.work
        self.listings = Listings(services.work)
        replays: dict[type, ReplayRecord] = {GroupMetadataKey: replay_group, **CONSUMER_REPLAYS, **SHARE_REPLAYS}
        self.coordinator = GroupCoordinator(services, replicas, replays=replays)
        self.consumer = ConsumerGroups(services, self.coordinator)
        classic_groups = ClassicGroups(services, self.coordinator)
        classic_members = ClassicMembers(services, classic_groups, self.consumer)
        self.classic = ClassicRequests(self.coordinator, classic_groups, classic_members)
        self.share = ShareGroups(services, self.coordinator, self.listings.begin)
        self.coordinator.lifecycles = {"classic": classic_groups, "consumer": self.consumer, "share": self.share}
        writer = OffsetWriter(services.log)
        self.offsets = OffsetManager(services, self.coordinator, writer)
        self.txn_offsets = TxnOffsetManager(services, self.coordinator, self.offsets, writer, replicas.guard)
        self.cleaner = GroupCleaner(services, self.coordinator, self.offsets)
        self.cleaner.delete_states = self.share.deletion.delete_all

    @property
    def image(self) -> ClusterImage:
        """The image that this broker acts on."""
        return self._image()

    def find(self, group_id: str, kind: type[G], name: str) -> G:
        """Return a group of a kind; `name` is the kind in messages.

        Raises:
            CoordinatorError: INVALID_GROUP_ID; GROUP_ID_NOT_FOUND; or this broker does not coordinate the group.
        """
        group = self.coordinator.shard_of_named(group_id).groups.get(group_id)
        if isinstance(group, kind):
            return group
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a {name} group."
        raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, message)

    def image_changed(self, image: ClusterImage) -> None:
        """Delete the offsets of deleted topics, and have groups look at topics that have changed."""
        self.cleaner.image_changed(image)
        self.consumer.image_changed(image)
        self.share.image_changed(image)

    # --- for observers ---

    @property
    def offset_count(self) -> int:
        """The committed offsets of these groups."""
        return sum(shard.offsets.count for shard in self.coordinator.shards)

    @property
    def transactional_offset_count(self) -> int:
        """The offsets that open transactions have written for these groups."""
        return sum(shard.offsets.transactional.count for shard in self.coordinator.shards)

    @property
    def commit_count(self) -> int:
        """The offsets that were committed since the broker started."""
        return self.offsets.commit_count

    @property
    def expiration_count(self) -> int:
        """The committed offsets that expired since the broker started."""
        return self.cleaner.expiration_count

    def states(self) -> Iterator[str]:
        """Yield the state of each group; groups may change between two."""
        for shard in list(self.coordinator.shards):
            for group_id in shard.group_ids():
                group = shard.groups.get(group_id)
                yield EMPTY if group is None else group.state_name

    def committed(self, max_groups: int, max_offsets: int) -> Iterator[tuple[str, TopicPartition, int]]:
        """Yield group, partition and committed offset, up to these numbers; offsets may change between two."""
        left = max_offsets
        named = (
            (shard, group_id) for shard in list(self.coordinator.shards) for group_id in list(shard.offsets.groups)
        )
        for shard, group_id in islice(named, max_groups):
            for topic, offsets in list(shard.offsets.groups.get(group_id, {}).items()):
                kept = list(islice(offsets.items(), left))
                left -= len(kept)
                for partition, committed in kept:
                    yield group_id, TopicPartition(topic, partition), committed.offset

    # --- work ---

    async def run(self) -> None:
        """Expire offsets from time to time."""
        interval_ms = self.config.offsets_retention_check_interval_ms
        await self._work.repeat(self.clock, interval_ms, self.cleaner.expiry_steps)
