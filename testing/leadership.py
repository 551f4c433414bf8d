"""Which broker leads what, decided by a test; runs in the cluster's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from purgatorio.broker.broker import Broker
from purgatorio.broker.group.config import OFFSETS_TOPIC
from purgatorio.broker.metadata.controller.elections import with_epochs
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState
from purgatorio.broker.txn.config import TRANSACTION_STATE_TOPIC
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.testing.network import Network

POLL_SECONDS: Final = 0.001
"""The time between two looks at what brokers know."""


class Leadership:
    """Moves leaders and coordinators of a running cluster.

    Args:
        network: tells the brokers that take part in decisions.
    """

    def __init__(self, network: Network) -> None:
        self._network = network

    async def move_leader(self, topic: str, partition: int, to: int | None) -> int:
        """Have an in-sync replica lead a partition; return its id when all brokers know. See `Kafka.move_leader`.

        Raises:
            ValueError: the topic or partition does not exist, or that broker is not an in-sync replica that runs.
        """

        def moved(image: ClusterImage, state: PartitionState) -> PartitionState:
            able = [each.broker_id for each in state.isr if image.is_alive(each)]
            others = [each for each in able if each != state.leader]
            leader = to if to is not None else next(iter(others), None)
            if leader not in able:
                which = "has no other in-sync replica" if to is None else f"cannot be led by broker {to}"
                raise ValueError(
                    f"{topic}-{partition} {which}: the in-sync replicas that live are {', '.join(map(str, able))}"
                )
            return replace(state, leader=leader)

        return await self._change(topic, partition, moved)

    async def no_leader(self, topic: str, partition: int) -> None:
        """Take a partition's leader away. See `Kafka.no_leader`.

        Raises:
            ValueError: the topic or partition does not exist.
        """
        await self._change(topic, partition, lambda _, state: replace(state, leader=NO_LEADER))

    async def move_coordinator(self, kind: Literal["group", "transaction"], name: str, to: int | None) -> int:
        """Move the coordinator of a group or a transactional id; return the new one's id.

        Raises:
            ValueError: there are no groups or transactions yet, or as `move_leader`.
        """
        topic = OFFSETS_TOPIC if kind == "group" else TRANSACTION_STATE_TOPIC
        known = self._newest().image.topics.get(topic)
        if known is None:
            raise ValueError(f"there is no coordinator of {kind} {name!r} yet: no client has asked for one")
        return await self.move_leader(topic, coordinator_partition(name, len(known.partitions)), to)

    async def in_sync(self, topic: str) -> None:
        """Wait until all replicas of a topic's partitions are in sync, as all brokers know.

        Raises:
            ValueError: there is no such topic.
        """

        def are_in_sync(image: ClusterImage) -> bool:
            found = image.topics.get(topic)
            return found is not None and all(len(each.isr) == len(each.replicas) for each in found.partitions)

        if topic not in self._newest().image.topics:
            raise ValueError(f"there is no topic {topic!r}")
        await self._until_known(are_in_sync)

    async def _change(
        self, topic: str, partition: int, change: Callable[[ClusterImage, PartitionState], PartitionState]
    ) -> int:
        """Change a partition's state, wait until all running brokers know, and return its leader."""

        def decide(image: ClusterImage) -> tuple[ClusterImage, PartitionState]:
            state = image.partition(topic, partition)
            if state is None:
                raise ValueError(f"there is no partition {topic}-{partition}")
            after = with_epochs(state, change(image, state))
            return (image if after is state else image.with_partitions({(topic, partition): after})), after

        answer: asyncio.Future[PartitionState] = asyncio.get_running_loop().create_future()
        self._newest().store.submit(decide, answer.set_result, answer.set_exception)
        decided = await answer
        await self._until_known(lambda image: _epoch(image, topic, partition) >= decided.partition_epoch)
        return decided.leader

    async def _until_known(self, holds: Callable[[ClusterImage], bool]) -> None:
        while not all(holds(each.image) and each.replicas.is_current for each in self._network.brokers):  # noqa: ASYNC110 - no one event tells it
            await asyncio.sleep(POLL_SECONDS)

    def _newest(self) -> Broker:
        brokers = self._network.brokers
        if not brokers:
            raise ValueError("no broker is running")
        return max(brokers, key=lambda each: each.image.version)


def _epoch(image: ClusterImage, topic: str, partition: int) -> int:
    """Return a partition's epoch; of one that was deleted meanwhile, one that is larger than all."""
    state = image.partition(topic, partition)
    return 1 << 62 if state is None else state.partition_epoch
