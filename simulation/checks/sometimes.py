"""Rare paths that a run of the default seeds has to reach at least once; a path that never runs proves nothing.

Counters wrap the functions of these paths while a simulation runs; what the functions do is the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast
from unittest import mock

from purgatorio.broker.causes.kinds import MARKER, PERSISTER
from purgatorio.broker.coordinator.broker_calls import BrokerCalls
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
from purgatorio.broker.share.giving_up import GiveUpCause
from purgatorio.broker.share.lock_table import LockTable
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.broker.share.state.upkeep import StateUpkeep
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.coordinator import TransactionCoordinator
from purgatorio.broker.txn.producers import NO_PRODUCER, Producers
from purgatorio.broker.txn.requests import TransactionRequests
from purgatorio.broker.txn.transaction import TransactionShard
from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.clients.pipelined import JavaProducer
from purgatorio.simulation.history.history import History, TopicRecreated
from purgatorio.simulation.world.cluster import SimulatedCluster
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
    "lock-over": "An acquisition lock ran out.",
    "lock-renewed": "A member renewed its lock.",
    "session-over": "A share session ended, and its member had records acquired.",
    "given-up": "A record was given up, since it had been delivered as often as the limit allows.",
    "share-load": "A leader took over records in flight of a share group.",
    "state-moved": "A call to a share coordinator was made again, at another broker.",
    "pruned": "A share coordinator deleted records of states that were not needed any more.",
}
"""Each path's name, and its meaning in one sentence."""


REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def _is_deleted(operation: DelayedDeleteRecords) -> bool:
    """Whether a request to delete records completes now, since all in-sync replicas have deleted them."""
    return any(
        deletion.partition.is_leader and deletion.partition.low_watermark >= deletion.required_offset > 0
        for deletion in operation._pending
    )


def _is_margin(lifecycle: BrokerLifecycleManager) -> bool:
    """Whether a broker with a margin has stopped to lead, and the store still keeps its lease."""
    store = cast("EmbeddedView", lifecycle._store)._store
    lease = store._leases.get(lifecycle._lease_id)
    return lifecycle._terms.slowest_rate < 1 and lease is not None and store._clock.now_ms() < lease.expires_ms


def _is_rebalancing(coordinator: GroupCoordinator, shard: GroupShard) -> bool:
    return any(group.state_name in REBALANCING for group in shard.groups.values())


def _has_decided(coordinator: TransactionCoordinator, shard: TransactionShard) -> bool:
    return any(transaction.value.is_decided for transaction in shard.transactions.values())


def _has_identity(producers: Producers, shard: Any, transaction: Any, value: Any, attempt: Any, *_: int) -> bool:
    return bool(attempt.producer != NO_PRODUCER)


def _are_loaded(manager: OffsetManager, group_id: str, *_: Any, **__: Any) -> bool:
    shards = manager._coordinator.shards
    return any(group_id in shard.offsets.groups and shard.leader_epoch > 0 for shard in shards)


def _always(*_: Any, **__: Any) -> bool:
    return True


def _refused_as(code: ErrorCode) -> Callable[..., bool]:
    return lambda error, error_code, message: error_code == code


class _Path(NamedTuple):
    """A function, and which of its calls count: those for which both hold, for its arguments and its result."""

    owner: type
    name: str
    before: Callable[..., bool] = _always
    after: Callable[[Any], bool] = _always


_PATHS: Final[Mapping[str, _Path]] = {
    "out-of-range": _Path(FollowerFetcher, "_reset_into_leaders_log"),
    "restart": _Path(Partition, "restart_at"),
    "truncate-segments": _Path(Segments, "truncate", lambda log, offset: log.number_of(offset) + 1 < len(log)),
    "wait-for-refused": _Path(RefusedBatches, "waits_for_another", after=lambda code: code is not None),
    "out-of-order": _Path(OutOfOrderSequence, "__init__"),
    "raised-epoch": _Path(JavaProducer, "_raise_epoch"),
    "duplicate": _Path(Log, "_duplicate"),
    "snapshot": _Path(ProducerStates, "restore"),
    "rack-read": _Path(ReplicaReader, "preferred_replica", after=lambda broker_id: broker_id >= 0),
    "compaction": _Path(Segments, "replace_oldest"),
    "memory-cap": _Path(MemoryBudget, "_warn"),
    "uncommitted-share": _Path(UncommittedShare, "refusal"),
    "lost-lease": _Path(BrokerLifecycleManager, "_resume"),
    "lost-answer": _Path(WatchedStore, "lose_answer"),
    "reassignment": _Path(ReplicaRoles, "_remove"),
    "deletion": _Path(Segments, "delete_oldest", after=bool),
    "delete-records": _Path(DelayedDeleteRecords, "try_complete", _is_deleted, bool),
    "recreation": _Path(History, "record", lambda history, event: isinstance(event, TopicRecreated)),
    "clock-margin": _Path(BrokerLifecycleManager, "_resume", _is_margin),
    "skipped-images": _Path(WatchedStore, "_arrive", lambda store, view: store.image.version > view.image.version + 1),
    "replaced-process": _Path(
        SimulatedCluster, "_replaced_ended", lambda own, process, failure: process in own.replaced
    ),
    "group-load": _Path(GroupCoordinator, "start_steps", lambda own, shard: bool(shard.groups or shard.offsets.count)),
    "rebalance-moved": _Path(GroupCoordinator, "unload_steps", _is_rebalancing),
    "fenced-static": _Path(CoordinatorError, "__init__", _refused_as(ErrorCode.FENCED_INSTANCE_ID)),
    "expired-member": _Path(Rebalances, "_session_over"),
    "marker-moved": _Path(
        BrokerCalls,
        "_partition_changed",
        lambda calls, tp: any(call.kind.row is MARKER for call in calls._by_partition[tp]),
    ),
    "load-decided": _Path(TransactionCoordinator, "start_steps", _has_decided),
    "timed-out": _Path(Completion, "_timed_out"),
    "fenced-producer": _Path(CoordinatorError, "__init__", _refused_as(ErrorCode.PRODUCER_FENCED)),
    "next-epoch": _Path(Producers, "_give", _has_identity),
    "asked-first": _Path(TransactionGuard, "_answered"),
    "parked-request": _Path(TransactionRequests, "_park", after=bool),
    "loaded-offsets": _Path(GroupCoordinator, "start_steps", lambda own, shard: shard.offsets.transactional.count > 0),
    "moved-offsets": _Path(OffsetManager, "offsets_of", _are_loaded, bool),
    "throttled": _Path(Muting, "mute"),
    "lock-over": _Path(SharePartition, "lock_ran_out"),
    "lock-renewed": _Path(LockTable, "renew"),
    "session-over": _Path(SharePartition, "release", after=lambda count: count > 0),
    "given-up": _Path(SharePartition, "_given_up", lambda share, batch, cause: cause is GiveUpCause.DELIVERY_LIMIT),
    "share-load": _Path(SharePartition, "_restore", lambda share, stored, start_offset: bool(stored.batches)),
    "state-moved": _Path(
        BrokerCalls, "resume", lambda calls, pause: pause.kind.row is PERSISTER and calls.may_go_on(pause)
    ),
    "pruned": _Path(StateUpkeep, "_delete_before"),
}


def _wrapped(path: _Path, count: Callable[[], None]) -> Any:
    """Return a patch that counts a path's calls."""
    function = getattr(path.owner, path.name)

    @functools.wraps(function)
    def counted(*args: Any, **options: Any) -> Any:
        wanted = path.before(*args, **options)
        result = function(*args, **options)
        if wanted and path.after(result):
            count()
        return result

    return mock.patch.object(path.owner, path.name, counted)


@contextlib.contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count how often each path is reached while the context lasts."""
    reached: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        for name, path in _PATHS.items():
            stack.enter_context(_wrapped(path, functools.partial(reached.update, [name])))
        yield reached
