"""Which broker leads what, decided by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Literal

from purgatorio.broker.cluster.decisions import decided, newest, until
from purgatorio.broker.cluster.errors import NAMES_COMPARED, NotThere, OperationRefused
from purgatorio.broker.cluster.network import Network
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.metadata.controller.elections import with_epochs
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from purgatorio.protocol.coordinator_partition import coordinator_partition


class Leadership:
    """Moves leaders and coordinators of a running cluster."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def move_leader(self, topic: str, partition: int, to: int | None) -> int:
        """Have an in-sync replica lead a partition; return its id when all brokers know. No record is lost.

        The preferred replica leads again at its next check (leader.imbalance.check.interval.ms: a second, and in tests
        five minutes), unless auto.leader.rebalance.enable is false.

        Args:
            to: the broker; None: any other in-sync replica.

        Raises:
            NotThere: the topic or partition does not exist.
            OperationRefused: that broker is not an in-sync replica that lives, or there is no other one.
            ClusterUnavailable: no broker runs that could decide it, or brokers did not hear of it in time.
        """

        def moved(image: ClusterImage, state: PartitionState) -> PartitionState:
            able = [each.broker_id for each in state.isr if image.is_alive(each)]
            others = [each for each in able if each != state.leader]
            leader = to if to is not None else next(iter(others), None)
            if leader not in able:
                which = "has no other in-sync replica" if to is None else f"cannot be led by broker {to}"
                live = ", ".join(map(str, able)) or "none"
                raise OperationRefused(f"{topic}-{partition} {which}: the in-sync replicas that live are {live}")
            return replace(state, leader=leader)

        return await self._change(topic, partition, moved)

    async def no_leader(self, topic: str, partition: int) -> None:
        """Take a partition's leader away: clients get LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER.

        It ends with `move_leader`, or when a broker stops, dies or starts, at which leaders are elected.

        Raises:
            NotThere: the topic or partition does not exist.
            ClusterUnavailable: as `move_leader`.
        """
        await self._change(topic, partition, lambda _, state: replace(state, leader=NO_LEADER))

    async def move_coordinator(self, kind: Literal["group", "transaction"], name: str, to: int | None) -> int:
        """Move the coordinator of a group or a transactional id; return the new one's id.

        All groups of the same partition of ``__consumer_offsets`` move with it, and so for transactional ids.

        Raises:
            NotThere: no client has asked for a coordinator of this kind yet.
            OperationRefused, ClusterUnavailable: as `move_leader`.
        """
        topic = OFFSETS_TOPIC if kind == "group" else TRANSACTION_STATE_TOPIC
        known = newest(self._network).image.topics.get(topic)
        if known is None:
            raise NotThere(f"there is no coordinator of {kind} {name!r} yet: no client has asked for one")
        return await self.move_leader(topic, coordinator_partition(name, len(known.partitions)), to)

    async def _change(
        self, topic: str, partition: int, change: Callable[[ClusterImage, PartitionState], PartitionState]
    ) -> int:
        """Change a partition's state, wait until all running brokers know, and return its leader."""

        def decide(image: ClusterImage) -> tuple[ClusterImage, PartitionState]:
            state = image.partition(topic, partition)
            if state is None:
                if topic not in image.topics:
                    raise no_topic(topic, image.topics)
                raise NotThere(f"there is no partition {topic}-{partition}")
            after = with_epochs(state, change(image, state))
            return (image if after is state else image.with_partitions({(topic, partition): after})), after

        after = await decided(newest(self._network).store, decide, f"the leader of {topic}-{partition} was not changed")
        await until(
            lambda: self._all_know(lambda image: _epoch(image, topic, partition) >= after.partition_epoch),
            f"all brokers know the new leader of {topic}-{partition}",
        )
        return after.leader

    def _all_know(self, holds: Callable[[ClusterImage], bool]) -> bool:
        return all(holds(each.image) and each.replicas.is_current for each in self._network.brokers)


def _epoch(image: ClusterImage, topic: str, partition: int) -> int:
    """Return a partition's epoch; of one that was deleted meanwhile, one that is larger than all."""
    state = image.partition(topic, partition)
    return 1 << 62 if state is None else state.partition_epoch


def no_topic(topic: str, known: Iterable[str]) -> NotThere:
    """Return the refusal for a topic that does not exist; it names one that is near."""
    return NotThere(f"there is no topic {topic!r}{nearest(topic, islice(known, NAMES_COMPARED))}")
