"""Finds a broker's replicas, and names the leaders of the partitions that are led elsewhere (KIP-951)."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage, PartitionState
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.protocol.errors import ErrorCode


class LeaderHint(NamedTuple):
    """The leader of a partition and its epoch, as a response names them; -1 if no other live broker is known to lead.

    Attributes:
        leader_id: a broker that is not fenced.
    """

    leader_id: int
    leader_epoch: int


NO_HINT: Final = LeaderHint(-1, -1)


class ReplicaLookup:
    """The replicas of one broker by name, and where the other partitions of its image are.

    Attributes:
        broker_id: the id of this broker.
        partitions: this broker's replicas by name; `ReplicaRoles` adds and removes them.
        image: the image that this broker applied last; None until it is registered.
        racks: the racks of the live brokers that have one, by broker id.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.partitions: dict[TopicPartition, Partition] = {}
        self.image: ClusterImage | None = None
        self.racks: Mapping[int, str] = {}

    def known(self, tp: TopicPartition) -> Partition | None:
        """Return this broker's replica of a partition, in any role; None if it has none."""
        return self.partitions.get(tp)

    def find(self, tp: TopicPartition) -> Partition:
        """Return this broker's replica of a partition, in any role.

        Raises:
            PartitionError: NOT_LEADER_OR_FOLLOWER if other brokers hold the partition's replicas, after which clients
                look for the leader at once; UNKNOWN_TOPIC_OR_PARTITION if the image lacks the partition.
        """
        partition = self.partitions.get(tp)
        if partition is None:
            raise self._absent(tp)
        return partition

    def check_kept(self, partition: Partition) -> None:
        """Check that this broker still has this replica, and not one of a new topic of the same name.

        Raises:
            PartitionError: as `find`; UNKNOWN_TOPIC_OR_PARTITION if the topic was deleted and created again.
        """
        current = self.partitions.get(partition.tp)
        if current is partition:
            return
        image = self.image
        topic = None if image is None else image.topics.get(partition.tp.topic)
        if topic is not None and topic.topic_id != partition.topic_id:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic of {partition.tp} was deleted")
        raise self._absent(partition.tp)

    def why_absent(self, tp: TopicPartition) -> ErrorCode:
        """Return the error code of `find` for a partition without a replica here."""
        # Before this broker is registered it has no image, and cannot say that a partition does not exist.
        if self.image is not None and self._state(tp) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _absent(self, tp: TopicPartition) -> PartitionError:
        code = self.why_absent(tp)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return PartitionError(code, f"{tp} does not exist")
        return PartitionError(code, f"{tp} has no replica on broker {self.broker_id}")

    def _state(self, tp: TopicPartition) -> PartitionState | None:
        image = self.image
        return None if image is None else image.partition(tp.topic, tp.partition)

    def hint(self, tp: TopicPartition, error_code: ErrorCode) -> LeaderHint:
        """Return the leader to name in a response with this error, so that the client needs no Metadata request.

        Only NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH have one. A fenced leader is not named, and neither is this
        broker if it refused as NOT_LEADER_OR_FOLLOWER: its lease may have expired.
        """
        refuses_to_lead = error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not refuses_to_lead and error_code != ErrorCode.FENCED_LEADER_EPOCH:
            return NO_HINT
        image, state = self.image, self._state(tp)
        if image is None or state is None or image.live_broker(state.leader) is None:
            return NO_HINT
        if refuses_to_lead and state.leader == self.broker_id:
            return NO_HINT
        return LeaderHint(state.leader, state.leader_epoch)
