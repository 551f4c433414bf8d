"""Reads the content of the page from a cluster, at a cost that does not grow with the number of parked operations.

Every list is bounded, since the document is made on the event loop that also answers clients. Longer lists are cut to
their most telling part: the operations that have waited longest, the partitions that lag.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.control.group_control import GroupControl
from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading import OPERATIONS_PER_PURGATORY
from purgatorio.admin.operations.reading.group_state import LAGS, Ends, read_groups_for_page
from purgatorio.admin.operations.reading.members import read_members, read_placement
from purgatorio.admin.operations.reading.parked import CAUSES, KEYS, TEXT_CHARS, cut, missing
from purgatorio.admin.operations.reading.share_strips import read_shares_for_page
from purgatorio.admin.operations.reading.stable_offsets import read_holding
from purgatorio.admin.operations.reading.tier_state import read_tier
from purgatorio.admin.operations.reading.transaction_state import read_transactions_for_page
from purgatorio.admin.operations.reading.waits import read_waits
from purgatorio.broker.causes.answers import explain
from purgatorio.broker.causes.kinds import KINDS, Holds, shown
from purgatorio.broker.causes.words import as_document
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.delays.finished import detail_of, kind_of
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.routing.request import is_of_broker
from purgatorio.purgatory import FinishedOperation, ParkedOperation, Purgatory

WATCH_LISTS_PER_PURGATORY: Final = 20
PARTITIONS: Final = 40
FAULTS: Final = 20
"""The newest fault rules."""
FIRED: Final = 8
"""The faults that fired last."""
FINISHED: Final = 100
FINISHED_OF_IDLE: Final = 30
"""The most of each idle kind among them: follower fetches end all the time, and the sessions of a thousand members may
end together; they must not crowd out the rest."""
FINISHED_LOOKED_AT: Final = 300
"""Finished operations of each broker that are searched for them."""


def read_state(
    cluster: BrokerCluster,
    control: ClusterControl,
    groups: GroupControl,
    transactions: TransactionControl,
    *,
    operations: int = OPERATIONS_PER_PURGATORY,
    since_ms: int | None = None,
    only: Sequence[TopicPartition] | None = None,
) -> Answer:
    """Return the whole content of the page, at one moment.

    Args:
        operations: the most parked operations of each purgatory.
        only: these partitions, instead of the most telling ones.
        since_ms: return only operations that finished at this time or later; None: the newest ones.
    """
    now_ms = cluster.clock.now_ms()
    brokers, image = cluster.brokers, control.image
    running = {broker.broker_id: broker for broker in brokers}
    partitions, partition_count = read_partitions(brokers, image, transactions, cluster.clock.wall_ms(), only=only)
    shown_groups, group_count = read_groups_for_page(groups, Ends(brokers, image, LAGS))
    shown_transactions, transaction_counts = read_transactions_for_page(transactions)
    state = {
        "cluster_id": cluster.cluster_id,
        "now_ms": now_ms,
        "wall_ms": cluster.clock.wall_ms(),
        "waits": read_waits(brokers, image),
        "brokers": [
            _broker(shown, running.get(shown["id"]), transactions, now_ms, operations)
            for shown in read_members(cluster, control)
        ],
        "partitions": partitions,
        "partition_count": partition_count,
        "groups": shown_groups,
        "group_count": group_count,
        "shares": read_shares_for_page(brokers),
        "tier": read_tier(brokers, image),
        "transactions": shown_transactions,
        "transaction_counts": transaction_counts,
        "faults": [_without("rule", live.as_data()) for live in cluster.faults.rules[-FAULTS:]],
        "fault_count": len(cluster.faults.rules),
        "fired": [
            _without("version", each._asdict()) for each in itertools.islice(reversed(cluster.faults.fired), FIRED)
        ],
        "finished": _finished_for_page(brokers, since_ms),
    }
    explain(state)
    return state


def _without(name: str, row: Answer) -> Answer:
    del row[name]
    return row


# --- brokers and their parked operations ---


def _broker(
    shown: Answer,
    broker: Broker | None,
    transactions: TransactionControl,
    now_ms: int,
    operations: int,
) -> Answer:
    if broker is None:
        return {**shown, "connections": 0, "follower": None, "finished_total": 0, "purgatories": []}
    return {
        **shown,
        "connections": broker.metrics.connections,
        "follower": read_follower(broker),
        "finished_total": broker.finished.total,
        "purgatories": [
            read_purgatory(purgatory, transactions, now_ms, operations) for purgatory in broker.purgatories
        ],
    }


def read_follower(broker: Broker) -> Answer:
    """Return how the broker's follower fetches are held back."""
    return {"held": broker.gate.held, "delay_ms": broker.gate.delay_ms}


def read_purgatory(purgatory: Purgatory[Any], transactions: TransactionControl, now_ms: int, operations: int) -> Answer:
    """Return a purgatory with up to `operations` of its operations, all its times on the clock of `now_ms`.

    `watched` is Kafka's PurgatorySize, `num_delayed` its NumDelayedOperations. Of the wheel's levels, which have
    `wheel_size` buckets of `tick_ms` each, there are the buckets that are not empty.
    """
    shift_ms = now_ms - purgatory.now_ms()
    return {
        "name": purgatory.name,
        "watched": purgatory.watched,
        "num_delayed": purgatory.num_delayed,
        "operations": [
            _operation(parked, transactions, now_ms, shift_ms) for parked in purgatory.operations(operations)
        ],
        "watch_lists": [
            {"key": str(each.key), "watched": each.watched} for each in purgatory.watch_lists(WATCH_LISTS_PER_PURGATORY)
        ],
        "wheel": [
            {
                **level._asdict(),
                "current_ms": level.current_ms + shift_ms,
                "buckets": [
                    {"expiration_ms": bucket.expiration_ms + shift_ms, "entries": bucket.entries}
                    for bucket in level.buckets
                ],
            }
            for level in purgatory.wheel()
        ],
    }


def _operation(parked: ParkedOperation, transactions: TransactionControl, now_ms: int, shift_ms: int) -> Answer:
    """Return a parked operation: `missing` says what it waits for, `causes` are the first parts of that as data."""
    parked_ms, deadline_ms = parked.parked_ms + shift_ms, parked.deadline_ms + shift_ms
    return {
        "id": parked.id,
        "kind": kind_of(parked.purgatory, parked.keys).noun,
        "keys": [str(key) for key in parked.keys[:KEYS]],
        "key_count": len(parked.keys),
        "parked_ms": parked_ms,
        "deadline_ms": deadline_ms,
        "waited_ms": now_ms - parked_ms,
        "remaining_ms": deadline_ms - now_ms,
        "checks": parked.checks,
        "missing": cut(missing(parked, transactions)),
        "causes": _causes(parked.causes),
        "client": cut(parked.client),
    }


def _causes(causes: Sequence[Any]) -> list[Any]:
    return [as_document(cause, TEXT_CHARS) for cause in causes[:CAUSES]]


# --- partitions ---


def read_partitions(
    brokers: Iterable[Broker],
    image: ClusterImage,
    transactions: TransactionControl,
    wall_ms: int,
    limit: int = PARTITIONS,
    only: Sequence[TopicPartition] | None = None,
) -> tuple[list[Answer], int]:
    """Return up to `limit` partitions by name, preferring those that are offline or lag; and the number of all.

    Args:
        only: return these instead, those of them that exist.
        brokers: the running brokers, whose replicas have the logs.
    """
    running = {broker.broker_id: broker for broker in brokers}
    wanted = most_telling(running, image, limit) if only is None else [tp for tp in only if image.partition(*tp)]
    shown = sorted(wanted, key=_internal_last)
    rows = []
    for tp in shown:
        state = image.topics[tp.topic].partitions[tp.partition]
        held = {key: replica for key, broker in running.items() if (replica := broker.replica(tp)) is not None}
        seen = _seen(state, held)
        held_by = None if seen is None else read_holding(seen, transactions, wall_ms)
        rows.append(_partition(tp, state, seen, held, held_by))
    return rows, image.partition_count


def most_telling(running: Mapping[int, Broker], image: ClusterImage, limit: int) -> list[TopicPartition]:
    """Return up to `limit` partitions: offline ones, then those that wait for a replica or a transaction, then others,
    each by name.

    Makes names for these only: there may be thousands of partitions, and the page asks each second. Those of internal
    topics come last, and only those that are offline or have records: most are empty, and all lack a replica while a
    broker is down.
    """
    offline, waiting = [], []
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if state.leader == NO_LEADER or running.keys().isdisjoint(state.replicas):
                offline.append(TopicPartition(topic.name, index))
            elif len(state.isr) < len(state.replicas) and not is_internal(topic.name):
                waiting.append(TopicPartition(topic.name, index))
    waiting += (
        replica.tp
        for broker in running.values()
        for replica in broker.partitions
        if replica.is_leader
        and (replica.high_watermark < replica.log.log_end_offset or replica.log.producers.open_count)
        and not is_internal(replica.tp.topic)
    )
    chosen = dict.fromkeys(
        tp
        for tp in (
            *heapq.nsmallest(limit, offline, key=_internal_last),
            *heapq.nsmallest(limit, dict.fromkeys(waiting)),
        )
        if image.partition(*tp) is not None  # a broker may still have a topic that the image has lost
    )
    names = heapq.nsmallest(2 * limit, itertools.filterfalse(is_internal, image.topics))
    others = (TopicPartition(name, index) for name in names for index in range(len(image.topics[name].partitions)))
    chosen.update(dict.fromkeys(itertools.islice(others, 2 * limit)))
    if len(chosen) < limit:
        chosen.update(dict.fromkeys(_internal_with_records(running, image)))
    return list(itertools.islice(chosen, limit))


def _internal_last(tp: TopicPartition) -> tuple[bool, TopicPartition]:
    return is_internal(tp.topic), tp


def _internal_with_records(running: Mapping[int, Broker], image: ClusterImage) -> Iterator[TopicPartition]:
    for name in sorted(filter(is_internal, image.topics)):
        for index, state in enumerate(image.topics[name].partitions):
            tp = TopicPartition(name, index)
            broker = running.get(state.leader)
            replica = None if broker is None else broker.replica(tp)
            if replica is not None and replica.log.log_end_offset > 0:
                yield tp


def _seen(state: PartitionState, held: Mapping[int, Partition]) -> Partition | None:
    """Return the leader of a partition; if the leader does not run here, the first replica that does."""
    return held.get(state.leader) or next(iter(held.values()), None)


def _partition(
    tp: TopicPartition,
    state: PartitionState,
    seen: Partition | None,
    held: Mapping[int, Partition],
    held_by: Answer | None,
) -> Answer:
    """Return a partition with its log as `seen`: without that the offsets are 0, min.insync.replicas None.

    One whose elected replica waits to hear what the tier has of it is `offline`, with that replica as its leader.
    `held_by` is None unless the last stable offset is below the high watermark.
    """
    elected = held.get(state.leader)
    waits = elected is not None and elected.leader == NO_LEADER and elected.leader_epoch == state.leader_epoch
    return {
        **read_placement(tp.topic, tp.partition, state),
        "offline": state.leader == NO_LEADER or waits,
        "log_start_offset": seen.log.log_start_offset if seen is not None else 0,
        "log_end_offset": seen.log.log_end_offset if seen is not None else 0,
        "high_watermark": seen.high_watermark if seen is not None else 0,
        "last_stable_offset": seen.last_stable_offset if seen is not None else 0,
        "held_by": held_by,
        "min_in_sync_replicas": seen.min_in_sync_replicas if seen is not None else None,
        "replicas": [_replica(broker_id, state, seen, held.get(broker_id)) for broker_id in state.replicas],
    }


def _replica(broker_id: int, state: PartitionState, seen: Partition | None, own: Partition | None) -> Answer:
    """Return a replica by what the leader knows (`seen`), and by the replica itself (`own`).

    The high watermark depends on `acknowledged_offset`, the log end offset that the leader knows of (-1 before the
    first fetch). `log_end_offset` is the replica's own, and `refusal` the reason why it has not appended its leader's
    last answer; both are None if it is not in this process, or its broker does not run.
    """
    end_offset = seen.log.log_end_offset if seen is not None else 0
    start_offset = seen.log.log_start_offset if seen is not None else 0
    follower = seen.followers.get(broker_id) if seen is not None else None
    if broker_id == state.leader:
        acknowledged_offset = end_offset
    else:
        acknowledged_offset = follower.log_end_offset if follower is not None else -1
    return {
        "broker": broker_id,
        "leader": broker_id == state.leader,
        "in_sync": broker_id in state.isr_ids,
        "eligible": broker_id in state.elr_ids,
        "log_end_offset": own.log.log_end_offset if own is not None else None,
        "acknowledged_offset": acknowledged_offset,
        "lag": max(0, end_offset - max(acknowledged_offset, start_offset)),
        "refusal": (own.refusal or None) if own is not None else None,
    }


# --- finished operations ---


def read_finished(brokers: Sequence[Broker], limit: int) -> list[Answer]:
    """Return the last `limit` operations that ended on any broker, newest first."""
    found = heapq.merge(*(_ended_on(broker, limit) for broker in brokers), key=lambda row: -row["done_ms"])
    return [row for row, _ in zip(found, range(limit), strict=False)]


def read_unmet(brokers: Sequence[Broker], looked_at: int) -> Iterator[Answer]:
    """Yield operations of clients that ended without what they waited for, newest first.

    Args:
        looked_at: of each broker's operations, so many that ended last.
    """
    ended = ((broker.broker_id, each) for broker in brokers for each in broker.finished.last(looked_at))
    unmet = (
        row for row in ended if row[1].outcome != "completed" and row[1].client and not is_of_broker(row[1].client)
    )
    for broker_id, each in sorted(unmet, key=lambda row: -row[1].done_ms):
        yield _finished(broker_id, each)


def _finished_for_page(brokers: Sequence[Broker], since_ms: int | None) -> list[Answer]:
    """Return the newest operations, with a limit of their own for idle kinds.

    Of sessions only those that expired: they end without their deadline when a member leaves, or a transaction ends.
    """
    rows: list[Answer] = []
    left = {each.noun: FINISHED_OF_IDLE for each in shown() if each.is_idle}
    newest_first = (_ended_on(broker, FINISHED_LOOKED_AT) for broker in brokers)
    for row in heapq.merge(*newest_first, key=lambda row: -row["done_ms"]):
        if len(rows) == FINISHED or (since_ms is not None and row["done_ms"] < since_ms):
            break
        kind = row["kind"]
        if KINDS[row["purgatory"]].holds is Holds.SESSIONS and row["outcome"] != "expired":
            continue
        if kind in left:
            if left[kind] == 0:
                continue
            left[kind] -= 1
        rows.append(row)
    return rows


def _ended_on(broker: Broker, limit: int) -> Iterator[Answer]:
    """Yield a broker's finished operations, newest first."""
    for ended in broker.finished.last(limit):
        yield _finished(broker.broker_id, ended)


def _finished(broker_id: int, ended: FinishedOperation) -> Answer:
    """Return the end of an operation, and its cause.

    If it ended unmet, `detail` and `causes` have what it still missed. `held_by`: the brokers for which it waited last.
    """
    return {
        "broker": broker_id,
        "purgatory": ended.purgatory,
        "id": ended.id,
        "kind": kind_of(ended.purgatory, ended.keys).noun,
        "keys": [str(key) for key in ended.keys[:KEYS]],
        "key_count": len(ended.keys),
        "parked_ms": ended.parked_ms,
        "done_ms": ended.done_ms,
        "deadline_ms": ended.deadline_ms,
        "waited_ms": ended.done_ms - ended.parked_ms,
        "outcome": ended.outcome,
        "cause": cut(ended.cause),
        "checks": ended.checks,
        "detail": cut(detail_of(ended)),
        "causes": _causes(ended.causes),
        "client": cut(ended.client),
        "held_by": [holder for holder in ended.held_by if isinstance(holder, int)][:KEYS],
    }
