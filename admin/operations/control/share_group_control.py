"""Changes share groups without members: resets their start offsets, or deletes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from purgatorio.admin.operations.control.coordinators import answer_of
from purgatorio.admin.operations.control.group_control import GROUP_TIME_LIMIT_MS, GroupControl
from purgatorio.admin.operations.control.offset_resets import PartitionReset, ResetTarget, offsets_of
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.group.share.offsets import ShareOffsets, StartOffset, TopicStarts
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import NO_START_OFFSET


class ShareGroupControl:
    """Changes share groups at their coordinators.

    Args:
        groups: finds them.
    """

    def __init__(self, cluster: BrokerCluster, groups: GroupControl, image: Callable[[], ClusterImage]) -> None:
        self._cluster = cluster
        self._groups = groups
        self._image = image

    async def reset_offsets(
        self, group_id: str, topic: str, partition: int | None, target: ResetTarget
    ) -> list[PartitionReset]:
        """Begin new states of a topic's share partitions; a group that does not exist comes to be by it.

        Records from the start offset on are delivered again, whether they were acknowledged or not.

        Args:
            partition: this partition only; None: all partitions of the topic.

        Raises:
            NotThere: there is no such topic or partition.
            OperationRefused: the group has members, or is none of share consumers.
            ClusterUnavailable: the coordinator, a share coordinator or the leader of a partition does not run, or the
                replicas do not follow in time; some partitions may have been reset.
        """
        targets = await offsets_of(self._cluster, self._image(), topic, partition, target)
        broker = self._coordinator_of(group_id)
        offsets = broker.groups.share.offsets
        before = await self._starts(offsets, group_id, topic, list(targets))

        def alter(done: Callable[[ErrorCode], None]) -> None:
            def altered(failures: Mapping[TopicPartition, ErrorCode]) -> None:
                done(next(iter(failures.values()), ErrorCode.NONE))

            offsets.alter(group_id, {topic: targets}, altered)

        await self._groups.change(group_id, alter)
        return [PartitionReset(topic, number, before[number], after) for number, after in targets.items()]

    async def _starts(
        self, offsets: ShareOffsets, group_id: str, topic: str, numbers: Sequence[int]
    ) -> dict[int, int | None]:
        """Return the start offset of each partition; None: it has none yet."""

        def describe(done: Callable[[list[TopicStarts]], None]) -> None:
            offsets.describe(group_id, [(topic, numbers)], done)

        what = f"the share coordinator of {group_id}"
        (found,) = await answer_of(describe, self._cluster.clock, GROUP_TIME_LIMIT_MS, what)
        return {each.partition: _known(each) for each in found.partitions}

    async def delete(self, group_id: str) -> None:
        """Delete a share group without members, with the states of its share partitions.

        Raises:
            NotThere: there is no such group.
            OperationRefused: the group has members, or is none of share consumers.
            ClusterUnavailable: a coordinator does not run, or the replicas do not follow in time.
        """
        broker = self._coordinator_of(group_id)
        await self._groups.change(group_id, lambda done: broker.groups.cleaner.delete_group(group_id, done))

    def _coordinator_of(self, group_id: str) -> Broker:
        """Return the coordinator of a share group, or of one that does not exist."""
        broker, shard = self._groups.find(group_id)
        group = shard.groups.get(group_id)
        if shard.offsets.knows(group_id) if group is None else not isinstance(group, ShareGroup):
            raise OperationRefused(f"{group_id} is no share group, but one of consumers")
        return broker


def _known(start: StartOffset) -> int | None:
    return None if start.start_offset == NO_START_OFFSET else start.start_offset
