"""Who leads a partition, and who could: decisions about the state of partitions, and the one rule behind them.

`settle` is that rule. Everything that happens to a partition (a broker dies, is fenced, comes back, joins or leaves the
in-sync set; replicas are reassigned; min.insync.replicas changes) is brought to it, and it alone chooses leaders:

1. In-sync replicas whose broker does not live leave the set.
2. Who leaves when the set has fewer than min.insync.replicas stays eligible (KIP-966), for as long as the same life of
   its broker lasts: the high watermark has not moved since, so it has everything that was acknowledged. Once the set
   is large enough again nobody else is eligible: the high watermark moves on without them.
3. The leader stays if it still is in sync. Otherwise the first replica in sync leads, then the first eligible one;
   if there is none, the partition is offline, until one comes back or an operator elects another one uncleanly.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.protocol.errors import ErrorCode

PartitionName = tuple[str, int]
MIN_IN_SYNC_REPLICAS = "min.insync.replicas"


class ElectionType(enum.IntEnum):
    """Which leader ElectLeaders asks for (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The outcome for one partition; `state` is None if there is no such partition."""

    topic: str
    partition: int
    state: PartitionState | None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def min_in_sync_replicas(topic: Topic, state: PartitionState, settings: TopicSettings) -> int:
    """min.insync.replicas of a partition, or the number of its replicas where there are fewer."""
    configured = topic.configs.get(MIN_IN_SYNC_REPLICAS)
    wanted = settings.log.min_insync_replicas if configured is None else int(configured)
    return min(wanted, len(state.replicas))


def settle(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
    """The state with its in-sync set, its eligible replicas and its leader as the brokers of `image` allow.

    Epochs grow by what changed; a state that is settled is returned as it is.
    """
    return with_epochs(state, _elect(image, _finish_reassignment(_cull(image, state, min_in_sync)), min_in_sync))


def _cull(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
    """Take out who does not live, and keep eligible who may be."""
    isr = tuple(incarnation for incarnation in state.isr if image.is_alive(incarnation))
    elr: tuple[BrokerIncarnation, ...] = ()
    if len(isr) < min_in_sync:
        candidates = dict.fromkeys((*state.isr, *state.elr))
        elr = tuple(incarnation for incarnation in candidates if incarnation not in isr and _lasts(image, incarnation))
    return replace(state, isr=isr, elr=in_replica_order(state, elr))


def _lasts(image: ClusterImage, incarnation: BrokerIncarnation) -> bool:
    """Whether this life of a broker, fenced or not, may still come back with its memory."""
    registration = image.brokers.get(incarnation.broker_id)
    return registration is not None and registration.broker_epoch == incarnation.broker_epoch


def in_replica_order(state: PartitionState, incarnations: Iterable[BrokerIncarnation]) -> tuple[BrokerIncarnation, ...]:
    """In the order of the replicas; who is no replica any more is left out."""
    by_id = {incarnation.broker_id: incarnation for incarnation in incarnations}
    return tuple(by_id[broker_id] for broker_id in state.replicas if broker_id in by_id)


def _elect(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
    """Keep the leader if it is in sync, else choose one."""
    if state.leader in state.isr_ids:
        return state
    if state.isr:
        return replace(state, leader=state.isr[0].broker_id)
    heir = next((incarnation for incarnation in state.elr if image.is_alive(incarnation)), None)
    if heir is None:
        return replace(state, leader=NO_LEADER)
    # Where one is enough, the high watermark moves on with the heir alone.
    others = tuple(incarnation for incarnation in state.elr if incarnation != heir) if min_in_sync > 1 else ()
    return replace(state, leader=heir.broker_id, isr=(heir,), elr=others)


def _finish_reassignment(state: PartitionState) -> PartitionState:
    """When all replicas that stay are in sync, those that go are gone (KIP-455)."""
    if not state.adding and not state.removing:
        return state
    target = tuple(broker_id for broker_id in state.replicas if broker_id not in state.removing)
    if not set(target) <= set(state.isr_ids):
        return state
    kept = replace(state, replicas=target, adding=(), removing=())
    return replace(kept, isr=in_replica_order(kept, state.isr), elr=in_replica_order(kept, state.elr))


def with_epochs(before: PartitionState, after: PartitionState) -> PartitionState:
    """The state after a change, with epochs that say what has changed since `before`; `before` itself if nothing has.

    A replica that goes starts a leader epoch, too: should it come back, as the same life but empty, then no fetch of
    its earlier log can be taken for one of the new.
    """
    if after == before:
        return before
    went = not set(before.replicas) <= set(after.replicas)
    leader_epoch = before.leader_epoch + (after.leader != before.leader or went)
    return replace(after, leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1)


def with_in_sync(
    image: ClusterImage, state: PartitionState, isr: Iterable[BrokerIncarnation], min_in_sync: int
) -> PartitionState:
    """The settled state with another in-sync set; who leaves it may stay eligible."""
    isr = in_replica_order(state, isr)
    elr = in_replica_order(state, (incarnation for incarnation in (*state.elr, *state.isr) if incarnation not in isr))
    return with_epochs(state, settle(image, replace(state, isr=isr, elr=elr), min_in_sync))


def settle_partitions(image: ClusterImage, settings: TopicSettings, broker_id: int | None = None) -> ClusterImage:
    """Settle every partition, or every one that has a replica on a broker."""
    changed: dict[PartitionName, PartitionState] = {}
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if broker_id is None or broker_id in state.replicas:
                settled = settle(image, state, min_in_sync_replicas(topic, state, settings))
                if settled is not state:
                    changed[topic.name, index] = settled
    return image.with_partitions(changed) if changed else image


def elect_leaders(
    image: ClusterImage,
    partitions: Sequence[PartitionName],
    election: ElectionType,
    *,
    settings: TopicSettings,
) -> tuple[ClusterImage, tuple[ElectionResult, ...]]:
    """Elect the preferred leaders of partitions, or, uncleanly, leaders of partitions that have none.

    An unclean election may lose acknowledged records: the new leader is the first live replica, whatever it has. It is
    the only way in which a replica that is neither in sync nor eligible comes to lead.

    Returns:
        One result for each partition that is named, in the order of their first mention.
    """
    changed: dict[PartitionName, PartitionState] = {}
    results = []
    for name, index in dict.fromkeys(partitions):
        state = image.partition(name, index)
        if state is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(ElectionResult(name, index, None, unknown, f"There is no partition {name}-{index}."))
            continue
        if election is ElectionType.PREFERRED:
            elected, error, message = _elect_preferred(image, state)
        else:
            elected, error, message = _elect_uncleanly(image, state)
        if elected is not state:
            # The elected may be so few that others become eligible, or so many that none is.
            min_in_sync = min_in_sync_replicas(image.topics[name], state, settings)
            changed[name, index] = elected = with_epochs(state, settle(image, elected, min_in_sync))
        results.append(ElectionResult(name, index, elected, error, message))
    return (image.with_partitions(changed) if changed else image), tuple(results)


_Election = tuple[PartitionState, ErrorCode, str | None]


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
    # Who is just being added probably has the least.
    candidates = sorted(state.replicas, key=lambda broker_id: broker_id in state.adding)
    heir = next((live for broker_id in candidates if (live := image.live_broker(broker_id))), None)
    if heir is None:
        return state, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica lives."
    return replace(state, leader=heir.broker_id, isr=(heir.incarnation,), elr=()), ErrorCode.NONE, None


def preferred_elections(image: ClusterImage, broker_id: int) -> list[PartitionName]:
    """The partitions that a broker is the preferred leader of, is in sync with, and does not lead."""
    return [
        (topic.name, index)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if state.preferred_leader == broker_id and state.leader != broker_id and broker_id in state.isr_ids
    ]
