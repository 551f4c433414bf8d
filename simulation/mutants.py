"""Mutants: each switches off one of the rules that keep acknowledged records, or readers where they should be.

The documentation names the rules as the reason for the cluster's guarantees; those of transactions make them atomic,
isolated and fenced. Those of share groups are in `share_mutants`, those of the tier in `tier_mutants`. A mutant patches
the code that implements its rule.
The simulation must find an anomaly with every mutant, and one of the kinds that the mutant declares: a function that
fails for its wrong parameters would be found as well, as an internal error, and prove nothing. So `replaced` also
refuses a function whose parameters are not those of the one that it replaces.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from purgatorio.broker.api.fetch import FetchHandler
from purgatorio.broker.cluster.restart import Restartable
from purgatorio.broker.coordinator import shards
from purgatorio.broker.coordinator.broker_calls import Answer
from purgatorio.broker.coordinator.coordinator_log import Committed, CoordinatorLog, NewRecord, TransactionalProducer
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.classic_groups import ClassicGroups
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.offsets import ShardOffsets
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.producer_state import ProducerStates
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.log.transactions import AbortedTransactions
from purgatorio.broker.metadata import broker_lifecycle
from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager
from purgatorio.broker.metadata.controller import TopicSettings, elections, resume_broker
from purgatorio.broker.metadata.delta import TopicDelta, changed_topics
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState
from purgatorio.broker.replica import roles
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.fetching.fetch_context import PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSession, key_of
from purgatorio.broker.replica.fetching.reader import ReplicaReader
from purgatorio.broker.replica.following.refused_batches import RefusedBatches
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.producing import transaction_guard
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.time.long_work import Steps
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.broker.txn import partitions, producers
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.transaction import TransactionShard
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.records import NO_PRODUCER_ID, iter_batches
from purgatorio.protocol.transaction_state import TransactionState
from purgatorio.purgatory.clock import Alarm
from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.rules import BrokerRule, Patches, declares_in, replaced
from purgatorio.simulation.share_mutants import SHARE_RULES
from purgatorio.simulation.tier_mutants import TIER_RULES
from purgatorio.simulation.world.nemesis import Nemesis

_LOSS: Final = frozenset(
    {"lost-write", "unseen", "vanished", "inconsistent-offsets", "consumer-reset", "committed-prefix"}
)
"""Records are gone, or others are in their place."""
_PARTLY: Final = frozenset({"aborted-read", "torn-transaction", "lost-transaction"})


RULES: Final[dict[str, BrokerRule]] = {}
"""Every rule, by its name on the command line."""
_rule = declares_in(RULES)


@_rule("identity", _LOSS)
def _identity() -> Patches:
    """1. A replica is an incarnation of a broker. Without: it is a broker id, in sync even after it restarts empty."""

    def end_of(partition: Partition, incarnation: BrokerIncarnation) -> int:
        follower = partition.followers.get(incarnation.broker_id)
        return -1 if follower is None else follower.log_end_offset

    yield replaced(
        ClusterImage, "is_alive", lambda image, incarnation: image.live_broker(incarnation.broker_id) is not None
    )
    yield replaced(elections, "_may_return", lambda image, incarnation: incarnation.broker_id in image.brokers)
    yield replaced(Partition, "_is_elected", lambda partition, state: True)
    yield replaced(Partition, "_end_of", end_of)


@_rule("old-assignments", _LOSS)
def _old_assignments() -> Patches:
    """2. A broker ignores assignments of its earlier incarnation. Without: it leads those with empty logs."""
    apply, may_lead = ReplicaManager.apply, BrokerLifecycleManager.may_lead

    def apply_any(replicas: ReplicaManager, image: ClusterImage) -> None:
        registered = image.brokers.get(replicas.broker_id)
        if replicas.incarnation is None and registered is not None:
            replicas.incarnation = registered.incarnation
        apply(replicas, image)

    yield replaced(ReplicaManager, "apply", apply_any)
    yield replaced(FetchHandler, "_is_current", lambda handler, replica_id, replica_epoch: True)
    yield replaced(BrokerLifecycleManager, "may_lead", lambda own: own.incarnation is None or may_lead(own))


@_rule("maximal-isr", _LOSS)
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

    yield replaced(Partition, "_await_in_sync", await_certain)


@_rule("min-isr", _LOSS)
def _min_in_sync() -> Patches:
    """4. Below min.insync.replicas the high watermark stands still. Without: it advances with the replicas left."""

    def advance(partition: Partition, *, by: int = -1) -> bool:
        reached = min([partition.log.log_end_offset, *map(partition._end_of, partition._awaited)])
        if not partition._may_lead() or reached <= partition.high_watermark:
            return False
        partition.log.commit_to(reached)
        partition.high_watermark_moved_by = by
        return True

    yield replaced(Partition, "advance_high_watermark", advance)


# Without eligible replicas a partition stays offline after all faults: no record is lost, and none can be written.
@_rule("elr", {"not-converged"})
def _eligible_replicas() -> Patches:
    """5. A replica that leaves a too small ISR stays eligible. Without: none is when the last in-sync replica dies."""
    remove_dead = elections._remove_dead
    yield replaced(
        elections,
        "_remove_dead",
        lambda image, state, min_in_sync: replace(remove_dead(image, state, min_in_sync), elr=()),
    )


@_rule("explicit-unclean", _LOSS)
def _explicit_unclean_elections() -> Patches:
    """6. Only an operator elects a replica that may lack records. Without: any live replica is elected in the end."""
    elect = elections._elect

    def elect_any_replica(image: ClusterImage, state: PartitionState, min_in_sync: int) -> PartitionState:
        elected = elect(image, state, min_in_sync)
        return elected if elected.leader >= 0 else elections._elect_uncleanly(image, elected)[0]

    yield replaced(elections, "_elect", elect_any_replica)


@_rule("epoch-truncation", _LOSS)
def _truncation_by_epoch() -> Patches:
    """7. Followers truncate where their epochs diverge from the leader's. Without: at their own high watermark."""
    apply_state = Partition.apply_state

    def truncating(partition: Partition, state: PartitionState, now_ms: int) -> None:
        before = partition.leader_epoch
        apply_state(partition, state, now_ms)
        if not partition.is_leader and partition.leader_epoch > before >= 0:
            partition.truncate_to(partition.high_watermark)

    yield replaced(Partition, "apply_state", truncating)
    yield replaced(ReplicaReader, "_diverging_epoch", lambda partition, request: None)


@_rule("self-fencing", {"fenced-answer"})
def _self_fencing() -> Patches:
    """8. A broker stops acting as leader when its lease may have expired. Without: it goes on."""
    yield replaced(BrokerLifecycleManager, "may_lead", lambda registration: registration.incarnation is not None)


# The next broker stops while a partition has no other replica: the partition stays offline.
@_rule("patient-restart", {"not-converged"})
def _patient_restarts() -> Patches:
    """9. A rolling restart waits for full ISRs after each broker. Without: it restarts the next broker at once."""

    async def at_once(cluster: Restartable, time_limit_ms: float) -> None: ...

    yield replaced(Nemesis, "wait_until_in_sync", at_once)


@_rule("refused-batches", {"sequence-refused"})
def _refused_batches() -> Patches:
    """10. Behind a refused batch the later ones of its producer are refused too. Without: the leader takes them."""
    yield replaced(RefusedBatches, "waits_for_another", lambda refused, records, producers, now_ms: None)


@_rule("slow-clocks", {"fenced-answer"})
def _slow_clocks() -> Patches:
    """11. A broker whose clock may be slow takes its lease for shorter than it is. Without: for as long as it is."""
    yield replaced(BrokerLifecycleManager, "_certain_ms", lambda own: own._terms.session_timeout_ms)


# A replica without its role: it follows no one, or does not lead.
@_rule("whole-deltas", {"not-converged"})
def _whole_deltas() -> Patches:
    """12. A delta between two images names each partition that differs. Without: of several it misses the last."""

    def miss_one(before: ClusterImage | None, after: ClusterImage) -> Sequence[TopicDelta]:
        deltas = changed_topics(before, after)
        return [delta._replace(partitions=delta.partitions[: max(1, len(delta.partitions) - 1)]) for delta in deltas]

    yield replaced(roles, "changed_topics", miss_one)


# The follower of a forgotten partition fetches it no more, and leaves the ISR for good.
@_rule("whole-sessions", {"not-converged", "lost-wake-up"})
def _whole_sessions() -> Patches:
    """13. A fetch session keeps what the client does not forget. Without: every tenth request, it loses a partition."""
    forget = FetchSession.forget

    def forget_more(session: FetchSession, keys: Iterable[Hashable]) -> list[PartitionFetch]:
        others = [key_of(fetch) for fetch in session.fetches][1:2] if session.epoch % 10 == 0 else []
        return forget(session, [*keys, *others])

    yield replaced(FetchSession, "forget", forget_more)


# The consumer is served again from where it was before the lost request.
@_rule("session-epochs", {"nonmonotonic-poll"})
def _session_epochs() -> Patches:
    """14. A fetch session takes requests in their order. Without: also those behind one that was lost."""

    def expects_any(session: FetchSession, epoch: int) -> bool:
        session.epoch = epoch
        return True

    yield replaced(FetchSession, "expects", expects_any)


@_rule("marked-cuts", {"lost-wake-up"})
def _marked_cuts() -> Patches:
    """15. An event marks its partition in every fetch that reads it. Without: truncations and deletions do not."""
    yield replaced(ReplicaEvents, "log_cut", lambda events, tp: None)


# A process that was replaced, and missed the image in which another broker leads, appends what is lost later.
@_rule("ended-registrations", {"fenced-answer"})
def _ended_registrations() -> Patches:
    """16. A broker ends when its id was registered again. Without: it takes a new lease for its own, and goes on."""

    def resume_any(
        image: ClusterImage, broker_id: int, broker_epoch: int, lease_id: int, *, settings: TopicSettings
    ) -> tuple[ClusterImage, bool]:
        return resume_broker(image, broker_id, broker_epoch, lease_id, settings=settings)[0], True

    yield replaced(broker_lifecycle, "resume_broker", resume_any)


@_rule("replicated-commits", {"lost-commit"})
def _replicated_commits() -> Patches:
    """17. A commit of offsets is answered once it is replicated. Without: as soon as it is in the leader's log."""
    append = CoordinatorLog.append

    def append_and_answer(
        log: CoordinatorLog,
        tp: TopicPartition,
        records: Sequence[NewRecord],
        done: Committed,
        *,
        applied: Callable[[], None] | None = None,
        client: str = "",
        producer: TransactionalProducer | None = None,
    ) -> bool:
        answered = False

        def once(error_code: ErrorCode) -> None:
            nonlocal answered
            if not answered:
                answered = True
                done(error_code)

        is_appended = append(log, tp, records, once, applied=applied, client=client, producer=producer)
        if is_appended:
            once(ErrorCode.NONE)
        return is_appended

    yield replaced(CoordinatorLog, "append", append_and_answer)


@_rule("current-generations", {"stale-commit"})
def _current_generations() -> Patches:
    """18. Members commit in the group's generation. Without: also in an earlier one, whatever they own by now."""
    yield replaced(ClassicGroup, "check_generation", lambda group, generation: None)


@_rule("whole-loads", {"lost-commit"})
def _whole_loads() -> Patches:
    """19. A coordinator loads all records of its groups. Without: not those of the last batch."""

    load_steps = shards.load_steps

    def load_less(tp: TopicPartition, log: Log, shard: Shard) -> Steps:
        return load_steps(tp, cast("Log", _WithoutLastBatch(log)), shard)

    yield replaced(shards, "load_steps", load_less)


class _WithoutLastBatch:
    """A log as it is read by a load, which ends before the last batch."""

    def __init__(self, log: Log) -> None:
        self.log_start_offset, self.log_end_offset = log.log_start_offset, log.log_end_offset
        self.read = log.read
        offset = self.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
            self.log_end_offset = offset
            for header, _ in iter_batches(b"".join(read.parts)):
                offset = header.last_offset + 1


@_rule("ended-sessions", {"stale-beat"})
def _ended_sessions() -> Patches:
    """20. A member whose session is over must join again. Without: its heartbeats are taken as before."""
    heartbeat = ClassicGroups.heartbeat

    def beat_always(groups: ClassicGroups, group: Group | None, request: HeartbeatRequest) -> None:
        try:
            heartbeat(groups, group, request)
        except CoordinatorError as error:
            if error.error_code != ErrorCode.UNKNOWN_MEMBER_ID:
                raise

    yield replaced(ClassicGroups, "heartbeat", beat_always)


# The next transaction of the producer goes on where this one was left open, and ends both.
@_rule("retried-markers", _PARTLY | {"G0", "hanging-transaction"})
def _retried_markers() -> Patches:
    """21. A marker is sent until it is written. Without: an attempt is enough, whatever became of it."""
    ended = MarkerSender.ended
    yield replaced(MarkerSender, "passes", lambda sender, call, answer: call.asked == NO_LEADER)
    yield replaced(MarkerSender, "ended", lambda sender, call, answer: ended(sender, call, Answer()))


@_rule("last-stable-offset", {"aborted-read", "unstable-read"})
def _last_stable_offset() -> Patches:
    """22. Readers under read_committed stop at the first open transaction. Without: at the high watermark."""
    yield replaced(Log, "last_stable_offset", lambda log, high_watermark: high_watermark)


@_rule("producer-epochs", _PARTLY | {"G0", "fenced-write"})
def _producer_epochs() -> Patches:
    """23. A producer with an earlier epoch is refused. Without: coordinators and leaders take any epoch."""
    for module in (partitions, producers):
        yield replaced(module, "check_producer", lambda transaction, producer_id, producer_epoch: None)
    yield replaced(transaction_guard, "_is_stale", lambda transaction, partition: False)
    yield replaced(ProducerStates, "_check_epoch", lambda producers, header: None)


@_rule("replicated-decisions", _PARTLY | {"G0"})
def _replicated_decisions() -> Patches:
    """24. A result takes effect once it is replicated. Without: as soon as it is in the coordinator's own log."""

    def append_and_apply(
        completion: Completion,
        shard: TransactionShard,
        records: Mapping[str, NewRecord],
        state: TransactionState,
        apply: Callable[[], None],
        done: Committed,
        client: str,
    ) -> None:
        transactions = [shard.transactions[each] for each in records]
        for transaction in transactions:
            transaction.pending = state
        refused: list[ErrorCode] = []
        is_appended = completion._services.log.append(shard.tp, list(records.values()), refused.append, client=client)
        error_code = ErrorCode.NONE if is_appended else refused[0]
        completion._end(shard, transactions, apply, done, error_code)

    yield replaced(Completion, "_append", append_and_apply)


@_rule("truncated-index", {"lost-transaction", "committed-skip", "unequal-replicas"})
def _truncated_index() -> Patches:
    """25. A truncated log forgets the transactions that were aborted behind its end. Without: it hides what follows."""
    yield replaced(AbortedTransactions, "truncate", lambda aborted, offset: None)


@_rule("transactional-offsets", {"phantom-commit", "unprocessed-input"})
def _offsets_with_their_transaction() -> Patches:
    """26. Offsets of a transaction take effect with its marker. Without: as soon as they are replicated."""
    append, apply = ShardOffsets.append, ShardOffsets.apply
    none = NO_PRODUCER_ID
    yield replaced(ShardOffsets, "append", lambda offsets, changes, producer_id=none: append(offsets, changes))
    yield replaced(ShardOffsets, "apply", lambda offsets, change, producer_id=none: apply(offsets, change))


@_rule("slow-turns", {"lease-while-slow"})
def _slow_turns() -> Patches:
    """27. Time counts for leases as the event loop makes turns. Without: a beat takes one turn, a heartbeat several."""

    async def beat_each_turn(clock: RunningClock, *others: RunningClock) -> None:
        alarms: list[Alarm] = []

        def beat() -> None:
            for each in (clock, *others):
                each.beat()
            alarms[:] = [clock._clock.call_later(clock.BEAT_MS, beat)]

        beat()
        try:
            await asyncio.Event().wait()
        finally:
            alarms.pop().cancel()

    yield replaced(RunningClock, "run", beat_each_turn)


RULES.update(SHARE_RULES)
RULES.update(TIER_RULES)


def describe(rule: str) -> str:
    """Return a rule's number and meaning, and the behaviour without it."""
    return (RULES[rule].patches.__doc__ or "").strip()


def proofs(rule: str, anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    """Return the anomalies that prove that a rule is switched off."""
    return [anomaly for anomaly in anomalies if anomaly.name in RULES[rule].found_by]


@contextlib.contextmanager
def without(rule: str) -> Iterator[None]:
    """Switch a rule off in this process while the context lasts.

    Raises:
        KeyError: there is no such rule.
        WrongSignature: the code that implements the rule has changed, and the mutant has not.
        CompiledFunction: that code is compiled.
    """
    with contextlib.ExitStack() as stack:
        for patch in RULES[rule].patches():
            stack.enter_context(patch)
        yield
