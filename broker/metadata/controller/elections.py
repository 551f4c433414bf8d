"""Leader elections: decisions about leader, ISR and ELR of partitions, and the one rule behind them.

`settle` is that rule. Every event of a partition (a broker dies, is fenced, comes back, joins or leaves the ISR;
replicas are reassigned; min.insync.replicas changes) ends in `settle`, and only `settle` chooses leaders:

1. Dead and fenced replicas leave the ISR.
2. Replicas that leave an ISR smaller than min.insync.replicas stay eligible leader replicas (KIP-966) until their
   broker's incarnation ends: the high watermark has not advanced since, so they have all acknowledged records. When
   the ISR has min.insync.replicas again the ELR is emptied, since the high watermark advances without its replicas.
3. The leader stays if it is in sync. Otherwise the first in-sync replica leads, and without one the first live eligible
   leader replica. Without either the partition is offline, until such a replica comes back or an operator runs an
   unclean election.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial

from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import (
    ALL_BROKERS,
    NO_LEADER,
    BrokerIncarnation,
    ClusterImage,
    PartitionState,
    Topic,
)
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode

PartitionName = tuple[str, int]
MIN_IN_SYNC_REPLICAS = "min.insync.replicas"


class ElectionType(enum.IntEnum):
    """The election type of ElectLeaders (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The outcome for one partition; `state` is None if the partition does not exist."""

    topic: str
    partition: int
    state: PartitionState | None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def min_in_sync_replicas(image: ClusterImage, topic: Topic, state: PartitionState, settings: TopicSettings) -> int:
    """Return min.insync.replicas of a partition, or the number of its replicas if that is smaller."""
    return min(configured_min_in_sync_replicas(image, topic, settings), len(state.replicas))


def configured_min_in_sync_replicas(image: ClusterImage, topic: Topic, settings: TopicSettings) -> int:
    """Return min.insync.replicas: the topic's, else that of all brokers (KIP-226), else the one of this broker."""
    configured = topic.configs.get(MIN_IN_SYNC_REPLICAS)
    if configured is None and ALL_BROKERS in image.broker_configs:
        configured = image.broker_configs[ALL_BROKERS].get(MIN_IN_SYNC_REPLICAS)
    return settings.log.min_insync_replicas if configured is None else int(configured)


def settle(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
    """Return the state with the ISR, ELR and leader that follow from the brokers of `image`.

    Epochs grow as `with_epochs` says; a settled state is returned unchanged.
    """
    return with_epochs(state, _elect(image, _finish_reassignment(_remove_dead(image, state, min_in_sync)), min_in_sync))


def _remove_dead(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
    """Remove dead and fenced replicas from the ISR; keep eligible ones in the ELR."""
    isr = tuple(incarnation for incarnation in state.isr if image.is_alive(incarnation))
    elr: tuple[BrokerIncarnation, ...] = ()
    if len(isr) < min_in_sync:
        candidates = dict.fromkeys((*state.isr, *state.elr))
        elr = tuple(
            incarnation for incarnation in candidates if incarnation not in isr and _may_return(image, incarnation)
        )
    return replace(state, isr=isr, elr=in_replica_order(state, elr))


def _may_return(image: ClusterImage, incarnation: BrokerIncarnation) -> bool:
    """Whether this incarnation, fenced or not, may come back with its logs."""
    registration = image.brokers.get(incarnation.broker_id)
    return registration is not None and registration.broker_epoch == incarnation.broker_epoch


def in_replica_order(state: PartitionState, incarnations: Iterable[BrokerIncarnation]) -> tuple[BrokerIncarnation, ...]:
    """Return the incarnations in the order of the replicas, without those that are not replicas."""
    by_id = {incarnation.broker_id: incarnation for incarnation in incarnations}
    return tuple(by_id[broker_id] for broker_id in state.replicas if broker_id in by_id)


def _elect(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
    """Keep the leader if it is in sync, else choose one."""
    if state.leader in state.isr_ids:
        return state
    if state.isr:
        return replace(state, leader=state.isr[0].broker_id)
    elected = next((incarnation for incarnation in state.elr if image.is_alive(incarnation)), None)
    if elected is None:
        return replace(state, leader=NO_LEADER)
    # With a min.insync.replicas of 1 the high watermark advances with the elected leader alone.
    others = tuple(incarnation for incarnation in state.elr if incarnation != elected) if min_in_sync > 1 else ()
    return replace(state, leader=elected.broker_id, isr=(elected,), elr=others)


def _finish_reassignment(state: PartitionState) -> PartitionState:
    """Remove the replicas to be removed if all target replicas are in sync (KIP-455)."""
    if not state.adding and not state.removing:
        return state
    target = tuple(broker_id for broker_id in state.replicas if broker_id not in state.removing)
    if not set(target) <= set(state.isr_ids):
        return state
    kept = replace(state, replicas=target, adding=(), removing=())
    return replace(kept, isr=in_replica_order(kept, state.isr), elr=in_replica_order(kept, state.elr))


def with_epochs(before: PartitionState, after: PartitionState) -> PartitionState:
    """Return the state `after` a change with its new epochs, or `before` if the two are equal.

    The partition epoch grows with every change, the leader epoch with another leader or a removed replica. A removed
    replica may be added again as the same incarnation but with an empty log; the new leader epoch fences the fetches
    of its earlier log.
    """
    if after == before:
        return before
    replica_removed = not set(before.replicas) <= set(after.replicas)
    leader_epoch = before.leader_epoch + (after.leader != before.leader or replica_removed)
    return replace(after, leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1)


def with_in_sync(
    image: ClusterImage, state: PartitionState, isr: Iterable[BrokerIncarnation], min_in_sync: int
) -> PartitionState:
    """Return the settled state with another ISR; replicas that leave the ISR may stay eligible."""
    isr = in_replica_order(state, isr)
    elr = in_replica_order(state, (incarnation for incarnation in (*state.elr, *state.isr) if incarnation not in isr))
    return with_epochs(state, settle(image, replace(state, isr=isr, elr=elr), min_in_sync))


def settler(image: ClusterImage) -> Callable[[PartitionState, int], PartitionState]:
    """Return `settle` on this image, which settles equal states once and gives them one new state.

    With thousands of partitions on a few brokers most states are equal. An unchanged state may be returned as another,
    equal object: compare partition epochs.
    """
    return cache(partial(settle, image))


def settle_partitions(image: ClusterImage, settings: TopicSettings, broker_id: int | None = None) -> ClusterImage:
    """Settle all partitions, or those that have a replica on the given broker."""
    changed: dict[str, dict[int, PartitionState]] = {}
    settled = settler(image)
    for topic in image.topics.values():
        min_in_sync = configured_min_in_sync_replicas(image, topic, settings)
        rows = {}
        for index, state in enumerate(topic.partitions):
            if broker_id is None or broker_id in state.replicas:
                after = settled(state, min(min_in_sync, len(state.replicas)))
                if after.partition_epoch != state.partition_epoch:
                    rows[index] = after
        if rows:
            changed[topic.name] = rows
    return image.with_rows(changed) if changed else image


def elect_leaders(
    image: ClusterImage,
    partitions: Sequence[PartitionName],
    election: ElectionType,
    *,
    settings: TopicSettings,
) -> tuple[ClusterImage, tuple[ElectionResult, ...]]:
    """Elect the preferred leaders of partitions, or elect leaders uncleanly for partitions without one.

    An unclean election may lose acknowledged records: the first live replica leads, whatever its log holds. Only an
    unclean election makes a replica leader that is neither in sync nor eligible.

    Returns:
        The new image, and one result for each named partition, in the order of their first mention.
    """
    changed: dict[PartitionName, PartitionState] = {}
    results = []
    elect = cache(partial(_elected, image, election))  # most of thousands of partitions are equal
    for name, index in dict.fromkeys(partitions):
        state = image.partition(name, index)
        if state is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(ElectionResult(name, index, None, unknown, f"There is no partition {name}-{index}."))
            continue
        elected, error, message = elect(state, min_in_sync_replicas(image, image.topics[name], state, settings))
        if elected.partition_epoch != state.partition_epoch:
            changed[name, index] = elected
        results.append(ElectionResult(name, index, elected, error, message))
    return (image.with_partitions(changed) if changed else image), tuple(results)


_Election = tuple[PartitionState, ErrorCode, str | None]


def _elected(image: ClusterImage, election: ElectionType, state: PartitionState, min_in_sync: int) -> _Election:
    elect = _elect_preferred if election is ElectionType.PREFERRED else _elect_uncleanly
    elected, error, message = elect(image, state)
    if elected is not state:
        # The new ISR may be smaller than min.insync.replicas, or large enough to empty the ELR.
        elected = with_epochs(state, settle(image, elected, min_in_sync))
    return elected, error, message


def _elect_preferred(image: ClusterImage, state: PartitionState) -> _Election:
    preferred = state.preferred_leader
    if state.leader == preferred:
        return state, ErrorCode.ELECTION_NOT_NEEDED, "The preferred leader leads already."
    if preferred not in state.isr_ids:
        why = "is not in sync" if image.live_broker(preferred) else "is not available"
        return state, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"The preferred leader, broker {preferred}, {why}."
    return replace(state, leader=preferred), ErrorCode.NONE, None


def _elect_uncleanly(image: ClusterImage, state: PartitionState) -> _Election:
    if state.leader != NO_LEADER:
        return state, ErrorCode.ELECTION_NOT_NEEDED, f"Broker {state.leader} leads."
    # Replicas that a reassignment is adding come last: they probably have the fewest records.
    candidates = sorted(state.replicas, key=lambda broker_id: broker_id in state.adding)
    elected = next((live for broker_id in candidates if (live := image.live_broker(broker_id))), None)
    if elected is None:
        return state, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica lives."
    return replace(state, leader=elected.broker_id, isr=(elected.incarnation,), elr=()), ErrorCode.NONE, None


class PreferredElections:
    """The partitions that a broker is the preferred leader of and in sync with, but that another one leads.

    Follows the images at the cost of their differences: brokers look every second, and mostly nothing has changed.

    Args:
        broker_id: the broker that should lead.
    """

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._image: ClusterImage | None = None
        self._wanted: dict[PartitionName, None] = {}

    def wanted(self, image: ClusterImage) -> list[PartitionName]:
        """Return the partitions that their preferred replicas should lead, by name, as of this image."""
        before, self._image = self._image, image
        for delta in changed_topics(before, image):
            states = () if delta.after is None else delta.after.partitions
            for index in delta.partitions:
                if index < len(states) and self._should_lead(states[index]):
                    self._wanted[delta.name, index] = None
                elif self._wanted:
                    self._wanted.pop((delta.name, index), None)
        return sorted(self._wanted)

    def _should_lead(self, state: PartitionState) -> bool:
        return (
            state.leader != self._broker_id
            and self._broker_id in state.replicas
            and state.preferred_leader == self._broker_id
            and self._broker_id in state.isr_ids
        )
