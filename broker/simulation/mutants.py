"""Mutants: each switches off one of the rules that keep acknowledged records.

The documentation names the rules as the reason for the cluster's guarantees. A mutant patches the code that implements
its rule. The simulation must find an anomaly with every mutant; a check that never fails proves nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from purgatorio.broker.api.fetch import FetchHandler
from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager
from purgatorio.broker.metadata.controller import elections
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, PartitionState
from purgatorio.broker.operator import Restartable
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.reader import ReplicaReader
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.simulation.nemesis import Nemesis

Patches = Iterator[contextlib.AbstractContextManager[Any]]


def _identity() -> Patches:
    """1. A replica is an incarnation of a broker. Without: it is a broker id, in sync even after it restarts empty."""

    def is_alive(image: ClusterImage, incarnation: BrokerIncarnation) -> bool:
        return image.live_broker(incarnation.broker_id) is not None

    yield mock.patch.object(ClusterImage, "is_alive", is_alive)
    yield mock.patch.object(elections, "_may_return", lambda image, incarnation: incarnation.broker_id in image.brokers)
    yield mock.patch.object(Partition, "_is_elected", return_value=True)
    yield mock.patch.object(Partition, "_end_of", _end_of_any_incarnation)


def _end_of_any_incarnation(partition: Partition, incarnation: BrokerIncarnation) -> int:
    follower = partition.followers.get(incarnation.broker_id)
    return -1 if follower is None else follower.log_end_offset


def _old_assignments() -> Patches:
    """2. A broker ignores assignments of its earlier incarnation. Without: it leads those with empty logs."""
    apply, may_lead = ReplicaManager.apply, BrokerLifecycleManager.may_lead

    def apply_any(replicas: ReplicaManager, image: ClusterImage) -> None:
        registered = image.brokers.get(replicas.broker_id)
        if replicas.incarnation is None and registered is not None:
            replicas.incarnation = registered.incarnation
        apply(replicas, image)

    yield mock.patch.object(ReplicaManager, "apply", apply_any)
    yield mock.patch.object(FetchHandler, "_is_current", return_value=True)
    yield mock.patch.object(BrokerLifecycleManager, "may_lead", lambda own: own.incarnation is None or may_lead(own))


def _maximal_in_sync_set() -> Patches:
    """3. The high watermark waits for every replica that may be in sync. Without: only for those that certainly are."""

    def await_certain(partition: Partition) -> None:
        proposal = partition.proposal
        certain = partition._in_sync if proposal is None else proposal.isr
        partition._awaited = tuple(
            incarnation
            for incarnation in partition._in_sync
            if incarnation in certain and incarnation.broker_id != partition.broker_id
        )

    yield mock.patch.object(Partition, "_await_in_sync", await_certain)


def _min_in_sync() -> Patches:
    """4. Below min.insync.replicas the high watermark stands still. Without: it advances with the replicas left."""

    def advance(partition: Partition) -> bool:
        reached = min([partition.log.log_end_offset, *map(partition._end_of, partition._awaited)])
        if not partition._may_lead() or reached <= partition.high_watermark:
            return False
        partition.log.high_watermark = reached
        return True

    yield mock.patch.object(Partition, "advance_high_watermark", advance)


def _eligible_replicas() -> Patches:
    """5. A replica that leaves a too small ISR stays eligible. Without: none is when the last in-sync replica dies."""
    remove_dead = elections._remove_dead

    def forget(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
        return replace(remove_dead(image, state, min_in_sync), elr=())

    yield mock.patch.object(elections, "_remove_dead", forget)


def _explicit_unclean_elections() -> Patches:
    """6. Only an operator elects a replica that may lack records. Without: any live replica is elected in the end."""
    elect = elections._elect

    def elect_any_replica(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
        elected = elect(image, state, min_in_sync)
        return elected if elected.leader >= 0 else elections._elect_uncleanly(image, elected)[0]

    yield mock.patch.object(elections, "_elect", elect_any_replica)


def _truncation_by_epoch() -> Patches:
    """7. Followers truncate where their epochs diverge from the leader's. Without: at their own high watermark."""
    apply_state = Partition.apply_state

    def truncating(partition: Partition, state: PartitionState, now_ms: int) -> None:
        before = partition.leader_epoch
        apply_state(partition, state, now_ms)
        if not partition.is_leader and partition.leader_epoch > before >= 0:
            partition.truncate_to(partition.high_watermark)

    yield mock.patch.object(Partition, "apply_state", truncating)
    yield mock.patch.object(ReplicaReader, "_diverging_epoch", staticmethod(lambda partition, request: None))


def _self_fencing() -> Patches:
    """8. A broker stops acting as leader when its lease may have expired. Without: it goes on."""
    yield mock.patch.object(
        BrokerLifecycleManager, "may_lead", lambda registration: registration.incarnation is not None
    )


def _patient_restarts() -> Patches:
    """9. A rolling restart waits for full ISRs after each broker. Without: it restarts the next broker at once."""

    async def at_once(cluster: Restartable, time_limit_ms: float) -> None:
        return

    yield mock.patch.object(Nemesis, "wait_until_in_sync", staticmethod(at_once))


RULES: Final[Mapping[str, Callable[[], Patches]]] = {
    "identity": _identity,
    "old-assignments": _old_assignments,
    "maximal-isr": _maximal_in_sync_set,
    "min-isr": _min_in_sync,
    "elr": _eligible_replicas,
    "explicit-unclean": _explicit_unclean_elections,
    "epoch-truncation": _truncation_by_epoch,
    "self-fencing": _self_fencing,
    "patient-restart": _patient_restarts,
}
"""Every rule, by its name on the command line."""


def describe(rule: str) -> str:
    """Return a rule's number and meaning, and the behaviour without it."""
    return (RULES[rule].__doc__ or "").strip()


@contextlib.contextmanager
def without(rule: str) -> Iterator[None]:
    """Switch a rule off in this process while the context lasts.

    Raises:
        KeyError: there is no such rule.
    """
    with contextlib.ExitStack() as stack:
        for patch in RULES[rule]():
            stack.enter_context(patch)
        yield
