"""Replica placement: the choice of brokers for a topic's partitions.

Placement is greedy, one partition after the other. The leader is the broker that leads the fewest partitions of the
topic. The followers are the brokers that hold the fewest of its replicas; if racks are known, brokers in racks without
a replica of the partition come first. Ties go round the ring of brokers: forward for leaders, backward for followers,
so that followers do not take the places that the next leaders need. While the set of brokers stays the same and has no
racks, leaders and replicas are balanced to within one at every partition count, also after partitions are added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from purgatorio.broker.metadata.controller.result import DecisionRefused
from purgatorio.broker.metadata.image import BrokerRegistration, ClusterImage, PartitionState
from purgatorio.protocol.errors import ErrorCode

Replicas = tuple[int, ...]


def place_replicas(
    brokers: Mapping[int, BrokerRegistration],
    count: int,
    replication_factor: int,
    *,
    start: int,
    existing: Sequence[Replicas] = (),
) -> list[Replicas]:
    """Choose the replicas of `count` new partitions of one topic, preferred leader first.

    Args:
        start: the first leader's place in the ring, modulo the number of brokers.
        existing: the replicas of the topic's existing partitions.

    Raises:
        DecisionRefused: with INVALID_REPLICATION_FACTOR if there are fewer brokers than replicas.
    """
    if replication_factor > len(brokers):
        raise DecisionRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {replication_factor} is larger than the number of live brokers, {len(brokers)}.",
        )
    ring = _ring(brokers)
    size = len(ring)
    leads = Counter(replicas[0] for replicas in existing)
    loads = Counter(broker for replicas in existing for broker in replicas)
    placed: list[Replicas] = []
    # After this many placements on brokers without racks all leads and all loads are level again, as at the start, so
    # that the placements repeat; a topic may have thousands of partitions.
    period = size * max(1, replication_factor - 1)
    for _ in range(count):
        if len(placed) == period and not existing and len(set(loads.values())) == 1 == len(set(leads.values())):
            return (placed * (count // period + 1))[:count]
        at = min(range(size), key=lambda place: (leads[ring[place]], (place - start) % size))
        leader = ring[at]
        followers = _followers(ring, at, replication_factor - 1, loads, brokers)
        # The second replica leads next after a failure. The followers take turns in this place, so that a broker's
        # partitions are not all led by the same broker after its failure.
        turn = leads[leader] % len(followers) if followers else 0
        replicas = (leader, *followers[turn:], *followers[:turn])
        leads[leader] += 1
        loads.update(replicas)
        placed.append(replicas)
    return placed


def _followers(
    ring: Sequence[int],
    leader_at: int,
    count: int,
    loads: Counter[int],
    brokers: Mapping[int, BrokerRegistration],
) -> list[int]:
    """Choose a partition's followers, given its leader's place in the ring."""
    candidates = [ring[leader_at - distance] for distance in range(1, len(ring))]
    racks = Counter([brokers[ring[leader_at]].rack])
    chosen: list[int] = []
    for _ in range(count):
        # min() takes the first of equals, and the candidates are in ring order.
        best = min(candidates, key=lambda broker: (_crowding(racks, brokers[broker].rack), loads[broker]))
        candidates.remove(best)
        chosen.append(best)
        racks[brokers[best].rack] += 1
    return chosen


def _crowding(racks: Counter[str | None], rack: str | None) -> int:
    """Return the number of the partition's replicas in this rack; 0 for a broker without a rack."""
    return 0 if rack is None else racks[rack]


def _ring(brokers: Mapping[int, BrokerRegistration]) -> list[int]:
    """Return the broker ids in ascending order."""
    return sorted(brokers)


def ring_place(brokers: Mapping[int, BrokerRegistration], broker_id: int) -> int:
    """Return the place of a broker in the ring, or 0 if the broker is not live."""
    return _ring(brokers).index(broker_id) if broker_id in brokers else 0


def check_assignment(brokers: Mapping[int, BrokerRegistration], index: int, replicas: Sequence[int]) -> Replicas:
    """Check the replicas that a client assigns to partition `index`.

    Raises:
        DecisionRefused: with INVALID_REPLICA_ASSIGNMENT.
    """
    problem = None
    if not replicas:
        problem = "has no replicas"
    elif len(set(replicas)) != len(replicas):
        problem = "names a broker twice"
    elif unknown := [broker for broker in replicas if broker not in brokers]:
        problem = f"names broker {unknown[0]}, which is not registered"
    if problem is not None:
        raise DecisionRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The assignment of partition {index} {problem}.")
    return tuple(replicas)


class NewPartitions:
    """The states of the partitions that one request creates; partitions with the same replicas share one state."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._states: dict[Replicas, PartitionState] = {}

    def states(self, placed: Iterable[Replicas]) -> tuple[PartitionState, ...]:
        """Return the state of each partition.

        Raises:
            DecisionRefused: as `new_partition`.
        """
        states = []
        for replicas in placed:
            state = self._states.get(replicas)
            if state is None:
                state = self._states[replicas] = new_partition(self._image, replicas)
            states.append(state)
        return tuple(states)


def new_partition(image: ClusterImage, replicas: Replicas) -> PartitionState:
    """Return the state of a new partition: all live replicas are in sync, and the first of them leads.

    Raises:
        DecisionRefused: with INVALID_REPLICA_ASSIGNMENT, if no replica is live.
    """
    isr = tuple(live.incarnation for broker_id in replicas if (live := image.live_broker(broker_id)) is not None)
    if not isr:
        raise DecisionRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of the assigned brokers is available.")
    return PartitionState(leader=isr[0].broker_id, leader_epoch=0, replicas=replicas, isr=isr, partition_epoch=0)
