"""When a world has come to rest: no faults, all replicas in sync, groups stable, all consumed, nothing stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.overview import members
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.protocol.transaction_state import TransactionState
from purgatorio.simulation.world.cluster import SimulatedCluster

LOOK_SECONDS: Final = 0.05
QUIET_SECONDS: Final = 1.0
"""How long nothing may happen before a world is at rest whose groups have committed all that there is."""
PATIENCE_SECONDS: Final = 30.0
"""The same for a world of which a group lags: more than the session of a member that was killed, and a rebalance."""
MAX_GROUPS: Final = 1_000
MAX_MEMBERS: Final = 1_000
MAX_OFFSETS: Final = 100_000
_AT_REST: Final = ("Stable", "Empty", "Dead")


class Settling:
    """Watches a cluster and what services do.

    Args:
        activity: returns a number that changes with all that services do to the world.
    """

    def __init__(self, cluster: SimulatedCluster, activity: Callable[[], int]) -> None:
        self._cluster = cluster
        self._activity = activity

    async def wait(self, *, quiet_seconds: float, patience_seconds: float, limit_seconds: float) -> str | None:
        """Wait until the world is at rest.

        Returns:
            The rest that a group has yet to read, if nothing happened for `patience_seconds`; else None.

        Raises:
            TimeoutError: the world is not at rest in time; the message says what it waits for.
        """
        loop = self._cluster.loop
        give_up = loop.time() + limit_seconds
        last, since = self._state(), loop.time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now, state = loop.time(), self._state()
            waits_for = self._disorder()
            if state != last or waits_for is not None:
                last, since = state, now
            if now - since >= quiet_seconds:
                lag = self._lag()
                if lag is None or now - since >= patience_seconds:
                    return lag
            if now >= give_up:
                raise TimeoutError(f"after {limit_seconds:g} s {waits_for or self._lag() or 'services still work'}")

    def _state(self) -> tuple[int, int]:
        return self._activity(), sum(end for _, end in self._ends())

    def _ends(self) -> Iterator[tuple[tuple[str, int], int]]:
        """Iterate over the partitions of services with their high watermarks."""
        for (topic, index), state in self._cluster.partitions.items():
            broker = self._cluster.brokers.get(state.leader)
            partition = None if broker is None else broker.replicas.partitions.get(TopicPartition(topic, index))
            if partition is not None and not topic.startswith("__"):
                yield (topic, index), partition.high_watermark

    def _disorder(self) -> str | None:
        """Return what the cluster has yet to do, or None."""
        for (topic, index), state in self._cluster.partitions.items():
            if state.leader == NO_LEADER:
                return f"{topic}-{index} has no leader"
            if len(state.isr) < len(state.replicas):
                return f"{topic}-{index} has in-sync replicas {state.isr_ids} of {state.replicas}"
        for broker in self._cluster.brokers.values():
            for state_name in broker.groups.states():
                if state_name not in _AT_REST:
                    return f"a group that broker {broker.broker_id} coordinates is {state_name}"
        for broker_id, transaction in self._cluster.transactions():
            state_of = transaction.value.state
            if transaction.is_busy or state_of is TransactionState.ONGOING:
                return (
                    f"the transaction of {transaction.transactional_id} on broker {broker_id} is {state_of.state_name}"
                )
        return None

    def _lag(self) -> str | None:
        """Return which group has not committed all that there is in a partition that it reads, or None."""
        ends = dict(self._ends())
        for broker in self._cluster.brokers.values():
            groups = broker.groups
            offsets = {(group_id, *tp): 0 for group_id, tp in _owned(groups)}
            offsets |= {(group_id, *tp): offset for group_id, tp, offset in groups.committed(MAX_GROUPS, MAX_OFFSETS)}
            for (group_id, topic, partition), offset in offsets.items():
                end = ends.get((topic, partition), 0)
                if offset < end:
                    return f"group {group_id} has committed offset {offset} of {topic}-{partition}, which ends at {end}"
        return None


def _owned(groups: Groups) -> Iterator[tuple[str, tuple[str, int]]]:
    """Iterate over the partitions that members of groups own, each with its group."""
    for shard in groups.coordinator.shards:
        for group_id, group in shard.groups.items():
            for member in members(group, groups.image, MAX_MEMBERS):
                for topic, partitions in (member.owned or {}).items():
                    yield from ((group_id, (topic, partition)) for partition in partitions)
