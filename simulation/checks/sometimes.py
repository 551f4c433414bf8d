"""Rare paths that a run of the default seeds has to reach at least once; a path that never runs proves nothing.

Counters wrap the functions of these paths while a simulation runs; what the functions do is the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast
from unittest import mock

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.rebalances import Rebalances
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.offset_manager import OffsetManager
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.layers.quotas.throttled_channel import Muting
from purgatorio.broker.log.errors import OutOfOrderSequence
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget, UncommittedShare
from purgatorio.broker.log.producer_state import ProducerStates
from purgatorio.broker.log.segments import Segments
from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager
from purgatorio.broker.metadata.embedded import EmbeddedView
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords
from purgatorio.broker.replica.fetching.reader import ReplicaReader
from purgatorio.broker.replica.following.follower import FollowerFetcher
from purgatorio.broker.replica.following.refused_batches import RefusedBatches
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.producing.transaction_guard import TransactionGuard
from purgatorio.broker.replica.roles import ReplicaRoles
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.coordinator import TransactionCoordinator
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.producers import NO_PRODUCER, Producers
from purgatorio.broker.txn.requests import TransactionRequests
from purgatorio.broker.txn.transaction import TransactionShard
from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.clients.pipelined import JavaProducer
from purgatorio.simulation.history.history import Event, History, TopicRecreated
from purgatorio.simulation.world.cluster import Process, SimulatedCluster
from purgatorio.simulation.world.store import WatchedStore

SOMETIMES: Final[Mapping[str, str]] = {
    "out-of-range": "A follower asked the leader for its offsets, since the leader had nothing at the follower's end.",
    "restart": "A follower dropped its log and started again at the leader's start.",
    "truncate-segments": "A truncation dropped a whole segment or more.",
    "wait-for-refused": "A batch was refused because an earlier one of its producer had been refused.",
    "out-of-order": "A leader refused a batch, since an earlier one of its producer was given up and is missing.",
    "raised-epoch": "A producer raised its epoch and began anew at sequence 0.",
    "duplicate": "A producer sent a batch again that was in the log.",
    "snapshot": "A truncated log took its producers from the snapshot of a segment.",
    "rack-read": "The leader sent a consumer to the follower in its rack.",
    "compaction": "A pass of compaction replaced segments.",
    "memory-cap": "The memory cap deleted records.",
    "uncommitted-share": "A log refused records beyond its share of those that are not committed.",
    "lost-lease": "A broker lost its lease and went on under a new one.",
    "lost-answer": "A change of the metadata was committed, and the broker did not learn that.",
    "reassignment": "A broker gave its replica of a partition up, which was moved or deleted.",
    "deletion": "Retention or DeleteRecords deleted segments.",
    "delete-records": "All in-sync replicas deleted the records that a DeleteRecords request named.",
    "recreation": "A topic was deleted and created again.",
    "clock-margin": "A broker whose clock may be slow stopped leading before its lease ended.",
    "skipped-images": "A broker learned an image, and had missed the one before.",
    "replaced-process": "A process found that another had registered under its broker id, and ended.",
    "group-load": "A coordinator loaded groups or committed offsets.",
    "rebalance-moved": "A group's coordinator changed in the midst of a rebalance.",
    "fenced-static": "A static member was fenced, since another client had come with its instance id.",
    "expired-member": "A member was silent for its session timeout, and was removed.",
    "marker-moved": "The leader of a partition changed while a marker for it was missing.",
    "load-decided": "A coordinator loaded a transaction that was decided and lacked markers.",
    "timed-out": "A transaction was aborted at its deadline.",
    "fenced-producer": "A coordinator refused a producer, since another one had its transactional id.",
    "next-epoch": "A transactional producer asked for its next epoch, after an error.",
    "asked-first": "Records waited until the coordinator confirmed their transaction.",
    "parked-request": "A request for a transactional id waited for the transition before it.",
    "loaded-offsets": "A group coordinator loaded offsets of an open transaction.",
    "moved-offsets": "A client read committed offsets from a coordinator that had loaded them.",
    "throttled": "A quota muted a connection.",
}
"""Each path's name, and its meaning in one sentence."""


REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def _truncates_segments(segments: Segments, offset: int) -> bool:
    return segments.number_of(offset) + 1 < len(segments)


def _is_deleted(operation: DelayedDeleteRecords) -> bool:
    """Whether a request to delete records completes now, since all in-sync replicas have deleted them."""
    return any(
        deletion.partition.is_leader and deletion.partition.low_watermark >= deletion.required_offset > 0
        for deletion in operation._pending
    )


def _is_recreation(history: History, event: Event) -> bool:
    return isinstance(event, TopicRecreated)


def _is_margin(lifecycle: BrokerLifecycleManager) -> bool:
    """Whether a broker with a margin has stopped to lead, and the store still keeps its lease."""
    store = cast("EmbeddedView", lifecycle._store)._store
    lease = store._leases.get(lifecycle._lease_id)
    return lifecycle._slowest_rate < 1 and lease is not None and store._clock.now_ms() < lease.expires_ms


def _is_skipping(store: WatchedStore, view: EmbeddedView) -> bool:
    return store.image.version > view.image.version + 1


def _was_replaced(cluster: SimulatedCluster, process: Process, failure: BaseException | None) -> bool:
    return process in cluster.replaced


def _has_groups(coordinator: GroupCoordinator, shard: GroupShard) -> bool:
    return bool(shard.groups or shard.offsets.count)


def _is_rebalancing(coordinator: GroupCoordinator, shard: GroupShard) -> bool:
    return any(group.state_name in REBALANCING for group in shard.groups.values())


def _is_fenced(error: CoordinatorError, error_code: ErrorCode, message: str) -> bool:
    return error_code == ErrorCode.FENCED_INSTANCE_ID


def _is_fenced_producer(error: CoordinatorError, error_code: ErrorCode, message: str) -> bool:
    return error_code == ErrorCode.PRODUCER_FENCED


def _has_decided(coordinator: TransactionCoordinator, shard: TransactionShard) -> bool:
    return any(transaction.value.is_decided for transaction in shard.transactions.values())


def _has_identity(producers: Producers, shard: Any, transaction: Any, value: Any, attempt: Any, new_id: int) -> bool:
    return bool(attempt.known != NO_PRODUCER)


def _has_open_offsets(coordinator: GroupCoordinator, shard: GroupShard) -> bool:
    return shard.offsets.transactional.count > 0


def _are_loaded(manager: OffsetManager, group_id: str, *_: Any, **__: Any) -> bool:
    shards = manager._coordinator.shards
    return any(group_id in shard.offsets.groups and shard.leader_epoch > 0 for shard in shards)


def _wrapped(owner: type, name: str, count: Callable[[], None], before: Callable[..., bool], after: Any) -> Any:
    """Return a patch that counts the calls for which `before` holds for the arguments and `after` for the result."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def counted(*args: Any, **options: Any) -> Any:
        wanted = before(*args, **options)
        result = function(*args, **options)
        if wanted and after(result):
            count()
        return result

    return mock.patch.object(owner, name, counted)


def _always(*_: Any, **__: Any) -> bool:
    return True


_PATHS: Final[Mapping[str, tuple[type, str, Callable[..., bool], Callable[[Any], bool]]]] = {
    "out-of-range": (FollowerFetcher, "_reset_into_leaders_log", _always, _always),
    "restart": (Partition, "restart_at", _always, _always),
    "truncate-segments": (Segments, "truncate", _truncates_segments, _always),
    "wait-for-refused": (RefusedBatches, "waits_for_another", _always, lambda code: code is not None),
    "out-of-order": (OutOfOrderSequence, "__init__", _always, _always),
    "raised-epoch": (JavaProducer, "_raise_epoch", _always, _always),
    "duplicate": (Log, "_duplicate", _always, _always),
    "snapshot": (ProducerStates, "restore", _always, _always),
    "rack-read": (ReplicaReader, "preferred_replica", _always, lambda broker_id: broker_id >= 0),
    "compaction": (Segments, "replace_oldest", _always, _always),
    "memory-cap": (MemoryBudget, "_warn", _always, _always),
    "uncommitted-share": (UncommittedShare, "refusal", _always, _always),
    "lost-lease": (BrokerLifecycleManager, "_resume", _always, _always),
    "lost-answer": (WatchedStore, "lose_answer", _always, _always),
    "reassignment": (ReplicaRoles, "_remove", _always, _always),
    "deletion": (Segments, "delete_oldest", _always, bool),
    "delete-records": (DelayedDeleteRecords, "try_complete", _is_deleted, bool),
    "recreation": (History, "record", _is_recreation, _always),
    "clock-margin": (BrokerLifecycleManager, "_resume", _is_margin, _always),
    "skipped-images": (WatchedStore, "_arrive", _is_skipping, _always),
    "replaced-process": (SimulatedCluster, "_replaced_ended", _was_replaced, _always),
    "group-load": (GroupCoordinator, "start_steps", _has_groups, _always),
    "rebalance-moved": (GroupCoordinator, "unload_steps", _is_rebalancing, _always),
    "fenced-static": (CoordinatorError, "__init__", _is_fenced, _always),
    "expired-member": (Rebalances, "_session_over", _always, _always),
    "marker-moved": (MarkerSender, "_partition_changed", lambda sender, tp: tp in sender._by_partition, _always),
    "load-decided": (TransactionCoordinator, "start_steps", _has_decided, _always),
    "timed-out": (Completion, "_timed_out", _always, _always),
    "fenced-producer": (CoordinatorError, "__init__", _is_fenced_producer, _always),
    "next-epoch": (Producers, "_give", _has_identity, _always),
    "asked-first": (TransactionGuard, "_answered", _always, _always),
    "parked-request": (TransactionRequests, "_park", _always, bool),
    "loaded-offsets": (GroupCoordinator, "start_steps", _has_open_offsets, _always),
    "moved-offsets": (OffsetManager, "offsets_of", _are_loaded, bool),
    "throttled": (Muting, "mute", _always, _always),
}


@contextlib.contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count how often each path is reached while the context lasts."""
    reached: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        for path, (owner, name, before, after) in _PATHS.items():
            stack.enter_context(_wrapped(owner, name, functools.partial(reached.update, [path]), before, after))
        yield reached
