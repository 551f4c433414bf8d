"""One replica of one partition: its role, its log, and, as a leader, the state of its followers.

The leader's rules (KIP-101, KIP-497, KIP-966):

* The high watermark is the smallest log end offset of the maximal ISR: the committed ISR and the replicas that the
  leader has proposed to add. A replica that the leader has proposed to remove counts until that is committed. The high
  watermark only advances, and only while at least min.insync.replicas replicas are in sync.
* A follower's log end offset is its fetch offset: it has all records before it. It holds for one broker epoch only,
  since the next incarnation of the broker starts with an empty log (KIP-903).
* A produce request with acks=-1 is refused before the append if fewer than min.insync.replicas replicas are in sync.
* A leader whose lease may have expired appends nothing, answers no fetch and acknowledges nothing.

`Partition` is the only writer of this state; all its methods are synchronous.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.causes.cause import FollowerBehind, TooFewInSync
from purgatorio.broker.log.errors import MemoryExhausted
from purgatorio.broker.log.log import AppendInfo, Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, PartitionState
from purgatorio.broker.replica.follower_state import UNKNOWN_OFFSET, FollowerState
from purgatorio.broker.replica.following.refused_batches import RefusedBatches
from purgatorio.broker.replica.producing.verification import PartitionVerifications
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import is_transactional, read_header

NO_TRANSACTIONAL_ID = "batches of a transaction need a transactional id"


class PartitionError(Exception):
    """This replica refuses a request; `error_code` is the reason."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class Partition:
    """This broker's replica of a partition.

    Args:
        tp: the partition's name.
        topic_id: the topic id (16 bytes); a new topic of the same name has another one.
        incarnation: the incarnation of the broker that holds this replica.
        log: the replica's log.
        may_lead: whether the broker certainly holds its lease, and so may act as a leader.

    Attributes:
        isr: the broker ids of the committed ISR.
        high_watermark_moved_by: the follower whose fetch advanced the high watermark last; -1 if it was no fetch.
        refused: the batches that this replica refused as a leader and that their producers will send again.
        remote: what is known of the log's part in the tier; None: nothing, or there is no tier.
        refusal: the reason why this replica, as a follower, has not appended the leader's last answer; "": it has.
        verifications: the transactions of producers whose coordinators were asked whether they include this partition.
    """

    __slots__ = (
        "_awaited",
        "_eligible",
        "_in_sync",
        "_may_lead",
        "_proposal",
        "broker_id",
        "followers",
        "high_watermark_moved_by",
        "incarnation",
        "isr",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "log",
        "partition_epoch",
        "refusal",
        "refused",
        "remote",
        "replicas",
        "topic_id",
        "tp",
        "verifications",
    )

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: bytes,
        incarnation: BrokerIncarnation,
        log: Log,
        *,
        may_lead: Callable[[], bool] = lambda: True,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.incarnation = incarnation
        self.broker_id = incarnation.broker_id
        self.log = log
        self._may_lead = may_lead
        self.leader = -1
        self.high_watermark_moved_by = -1
        self.leader_epoch = -1
        self.leader_epoch_start_offset = 0
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.followers: dict[int, FollowerState] = {}
        self.refused = RefusedBatches()
        self.refusal = ""
        self.remote: RemoteLog | None = None
        self.verifications = PartitionVerifications()
        self._in_sync: tuple[BrokerIncarnation, ...] = ()
        self._eligible: tuple[BrokerIncarnation, ...] = ()
        self._proposal: InSyncProposal | None = None
        self._awaited: tuple[BrokerIncarnation, ...] = ()

    # --- role ---

    @property
    def high_watermark(self) -> int:
        """The offset after the last committed record; the log keeps it, since it deletes committed records only."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset below which all records are committed and of no open transaction."""
        return self.log.last_stable_offset(self.log.high_watermark)

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads."""
        return self.leader == self.broker_id

    @property
    def certainly_leads(self) -> bool:
        """Whether this replica leads, and no other one can: its broker holds its lease."""
        return self.leader == self.broker_id and self._may_lead()

    def apply_state(self, state: PartitionState, now_ms: int) -> None:
        """Take the role that the image gives this replica; a state with an older partition epoch is ignored."""
        if state.partition_epoch < self.partition_epoch:
            return
        leader = state.leader if state.leader != self.broker_id or self._is_elected(state) else NO_LEADER
        begins_to_lead = leader == self.broker_id and (not self.is_leader or state.leader_epoch > self.leader_epoch)
        if state.partition_epoch > self.partition_epoch:
            self._proposal = None
        self.leader = leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.isr = state.isr_ids
        self._in_sync = state.isr
        self._eligible = state.elr
        self._await_in_sync()
        self.log.count_as(led=self.is_leader)
        if begins_to_lead:
            self.leader_epoch_start_offset = self.log.log_end_offset
            self.log.epochs.assign(state.leader_epoch, self.leader_epoch_start_offset)
            self.followers = {}
        if self.is_leader:
            known = self.followers
            others = [b for b in state.replicas if b != self.broker_id]
            self.followers = {b: known.get(b) or FollowerState(b, last_caught_up_ms=now_ms) for b in others}
            self.advance_high_watermark()
        else:
            self.followers = {}

    def _is_elected(self, state: PartitionState) -> bool:
        """Return whether this incarnation was elected, and not an earlier one, whose log is lost."""
        return self.incarnation in state.isr

    def check_leader(self, current_leader_epoch: int) -> None:
        """Check that this replica leads, in the client's or follower's leader epoch (-1: not given). KIP-320.

        Raises:
            PartitionError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        self._check_epoch(current_leader_epoch)
        self._check_leads()

    def check_follower(self, current_leader_epoch: int) -> None:
        """Check that this replica follows a leader, in the client's leader epoch (KIP-392).

        Raises:
            PartitionError: as `check_leader`.
        """
        self._check_epoch(current_leader_epoch)
        if self.leader < 0 or not self._may_lead():
            raise PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.tp} has no leader or no lease here")

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if current_leader_epoch not in (-1, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                raise PartitionError(ErrorCode.FENCED_LEADER_EPOCH, f"{self.tp} is in leader epoch {self.leader_epoch}")
            raise PartitionError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.tp} is in leader epoch {self.leader_epoch}")

    def _check_leads(self) -> None:
        if self.leader != self.broker_id or not self._may_lead():
            raise self._not_leader_error()

    def _not_leader_error(self) -> PartitionError:
        message = f"{self.tp} is led by broker {self.leader}"
        if self.leader == self.broker_id:
            message = f"broker {self.broker_id} may have been fenced: its lease ran out"
        return PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)

    # --- the leader: ISR ---

    def _await_in_sync(self) -> None:
        """Store the followers that the high watermark waits for: the maximal ISR without the leader."""
        proposed = () if self._proposal is None else self._proposal.isr
        maximal = dict.fromkeys((*self._in_sync, *proposed))
        self._awaited = tuple(incarnation for incarnation in maximal if incarnation.broker_id != self.broker_id)

    @property
    def proposal(self) -> InSyncProposal | None:
        """The ISR that this leader has proposed, until it is committed or refused."""
        return self._proposal

    def propose_to_add(self, incarnation: BrokerIncarnation) -> InSyncProposal | None:
        """Propose to add a follower to the ISR if it has reached the high watermark and the start of this leader epoch.

        The high watermark waits for the follower until `withdraw` is called or a newer state is applied.
        """
        follower = self.followers.get(incarnation.broker_id)
        if (
            self._proposal is not None
            or follower is None
            or follower.broker_epoch != incarnation.broker_epoch
            or incarnation in self._in_sync
            or not self.is_leader
            or follower.log_end_offset < max(self.high_watermark, self.leader_epoch_start_offset)
        ):
            return None
        return self._propose(
            (*(member for member in self._in_sync if member.broker_id != incarnation.broker_id), incarnation)
        )

    def propose_to_drop_laggards(self, now_ms: int, max_lag_ms: int) -> InSyncProposal | None:
        """Propose to remove the followers that have not been caught up for longer than `max_lag_ms`."""
        if self._proposal is not None or not self.is_leader:
            return None
        kept = tuple(incarnation for incarnation in self._in_sync if not self._lags(incarnation, now_ms, max_lag_ms))
        return None if kept == self._in_sync else self._propose(kept)

    def _lags(self, incarnation: BrokerIncarnation, now_ms: int, max_lag_ms: int) -> bool:
        follower = self.followers.get(incarnation.broker_id)
        if incarnation == self.incarnation or follower is None:
            return False
        return follower.log_end_offset != self.log.log_end_offset and now_ms - follower.last_caught_up_ms > max_lag_ms

    def _propose(self, isr: tuple[BrokerIncarnation, ...]) -> InSyncProposal:
        self._proposal = InSyncProposal(
            self.topic_id, self.tp.topic, self.tp.partition, self.leader_epoch, self.partition_epoch, isr
        )
        self._await_in_sync()
        return self._proposal

    def withdraw(self, proposal: InSyncProposal) -> bool:
        """End a proposal that was not committed; returns whether the high watermark advanced."""
        if self._proposal is not proposal:
            return False
        self._proposal = None
        self._await_in_sync()
        return self.is_leader and self.advance_high_watermark()

    # --- the leader: records ---

    @property
    def min_in_sync_replicas(self) -> int:
        """min.insync.replicas, or the number of replicas if that is smaller."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def has_enough_in_sync_replicas(self) -> bool:
        """Whether the ISR has at least min.insync.replicas replicas, or all replicas if these are fewer."""
        size = len(self.isr)
        return size >= len(self.replicas) or size >= self.log.config.min_insync_replicas

    def check_order(self, records: Buffer, now_ms: int) -> None:
        """Check that no earlier batch of the producer was refused and is to be retried first.

        Raises:
            PartitionError: with the code of that batch.
        """
        code = self.refused.waits_for_another(records, self.log.producers, now_ms)
        if code is not None:
            raise PartitionError(code, f"{self.tp} waits for an earlier batch of this producer that was refused")

    def append_as_leader(self, records: Buffer, *, acks: int, wall_ms: int) -> AppendInfo:
        """Append a producer's batch of no transaction.

        Raises:
            PartitionError: this replica does not lead; acks=-1 and fewer than min.insync.replicas are in sync;
                TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as Kafka says without a transactional id, for a batch of a
                transaction, which has to pass the `TransactionGuard`.
            LogError: the log refuses the batch; nothing was appended.
        """
        self.check_may_append(acks)
        if is_transactional(records):
            raise PartitionError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONAL_ID)
        return self.log.append_as_leader(records, leader_epoch=self.leader_epoch, wall_ms=wall_ms)

    def append_admitted(self, records: Buffer, *, acks: int, wall_ms: int) -> AppendInfo:
        """Append a producer's batch of a transaction, which the guard has just admitted.

        Raises:
            PartitionError, LogError: as `append_as_leader`, but batches of transactions are not refused.
        """
        self.check_may_append(acks)
        return self.log.append_as_leader(records, leader_epoch=self.leader_epoch, wall_ms=wall_ms)

    def append_own(self, records: Buffer, *, acks: int, wall_ms: int) -> AppendInfo:
        """Append a batch that the broker made, such as an end marker or a coordinator's records of a transaction.

        Raises:
            PartitionError, LogError: as `append_admitted`.
        """
        self.check_may_append(acks)
        info = self.log.append_as_leader(records, leader_epoch=self.leader_epoch, wall_ms=wall_ms, from_client=False)
        if self.verifications:
            header = read_header(records)
            if header.is_control:
                self.verifications.ended(header.producer_id, header.producer_epoch)
        return info

    def check_may_append(self, acks: int) -> None:
        """Check that this replica leads, and for acks=-1 that enough replicas are in sync.

        Raises:
            PartitionError: NOT_LEADER_OR_FOLLOWER or NOT_ENOUGH_REPLICAS.
        """
        if self.leader != self.broker_id or not self._may_lead():  # as `_check_leads`, without the call
            raise self._not_leader_error()
        if acks == -1 and not self.has_enough_in_sync_replicas:
            raise PartitionError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.tp} has {len(self.isr)} in-sync replicas and needs {self.min_in_sync_replicas}",
            )

    def follower_fetched(
        self, incarnation: BrokerIncarnation, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> bool:
        """Record a follower's fetch; returns whether the high watermark advanced."""
        follower = self.followers[incarnation.broker_id]
        if follower.broker_epoch != incarnation.broker_epoch:
            follower = FollowerState(incarnation.broker_id, follower.last_caught_up_ms, incarnation.broker_epoch)
            self.followers[incarnation.broker_id] = follower
        follower.fetched(fetch_offset, log_start_offset, self.log.log_end_offset, now_ms)
        return self.advance_high_watermark(by=incarnation.broker_id)

    def follower_was_level(self, broker_id: int, fetch_offset: int, at_ms: int) -> None:
        """Record that a follower had all records at a time after its last noted fetch: its session confirmed it."""
        follower = self.followers.get(broker_id)
        if follower is not None and follower.log_end_offset == fetch_offset:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, at_ms)

    def advance_high_watermark(self, *, by: int = -1) -> bool:
        """Advance the high watermark to the smallest log end offset of the maximal ISR; returns whether it advanced.

        Args:
            by: the follower whose fetch is the cause; -1 for another cause.
        """
        if not self.has_enough_in_sync_replicas or not self._may_lead():
            return False
        log = self.log
        reached = log.log_end_offset
        for incarnation in self._awaited:
            end_offset = self._end_of(incarnation)
            if end_offset < reached:
                reached = end_offset
        if reached <= log.high_watermark:
            return False
        log.commit_to(reached)
        self.high_watermark_moved_by = by
        return True

    def _end_of(self, incarnation: BrokerIncarnation) -> int:
        """Return a follower's log end offset in this incarnation of its broker; -1 if it has not fetched yet."""
        follower = self.followers.get(incarnation.broker_id)
        if follower is None or follower.broker_epoch != incarnation.broker_epoch:
            return UNKNOWN_OFFSET
        return follower.log_end_offset

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the maximal ISR (KIP-107); -1: a follower has not fetched yet."""
        starts = [self.followers[incarnation.broker_id].log_start_offset for incarnation in self._awaited]
        return min([self.log.log_start_offset, *starts])

    @property
    def electable_start_offset(self) -> int:
        """The smallest log start offset of all replicas that may be elected: the maximal ISR and the ELR (KIP-966).

        -1: a follower among them has not fetched yet.
        """
        starts = [self.low_watermark]
        for incarnation in self._eligible:
            follower = self.followers.get(incarnation.broker_id)
            is_same = follower is not None and follower.broker_epoch == incarnation.broker_epoch
            starts.append(follower.log_start_offset if follower is not None and is_same else UNKNOWN_OFFSET)
        return min(starts)

    def delete_records_before(self, offset: int) -> int:
        """Delete the records before an offset (-1: the high watermark) as the leader; returns the offset.

        Raises:
            PartitionError: this replica does not lead; POLICY_VIOLATION if the topic's cleanup.policy lacks delete;
                OFFSET_OUT_OF_RANGE if the offset is negative or above the high watermark. An offset below the log
                start offset deletes nothing, and is no error, as in Kafka.
        """
        self._check_leads()
        if not self.log.config.delete:
            raise PartitionError(ErrorCode.POLICY_VIOLATION, f"{self.tp} has no cleanup.policy=delete")
        offset = self.high_watermark if offset == UNKNOWN_OFFSET else offset
        if not 0 <= offset <= self.high_watermark:
            raise PartitionError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.tp} has its high watermark before {offset}")
        if offset > self.log.log_start_offset:
            self.log.advance_log_start(offset)
        return offset

    def laggard_ids(self, required_offset: int) -> list[int]:
        """Return the followers in the maximal ISR that lack records before `required_offset`."""
        return [incarnation.broker_id for incarnation in self._awaited if self._end_of(incarnation) < required_offset]

    def why_behind(self, broker_id: int) -> str:
        """Return what the leader knows of the reason why a follower lags."""
        follower = self.followers.get(broker_id)
        return "" if follower is None else follower.why_behind(self.log.log_end_offset)

    def laggards(self, required_offset: int) -> list[FollowerBehind | TooFewInSync]:
        """Return those followers with their log end offsets, and whether in-sync replicas are missing."""
        behind: list[FollowerBehind | TooFewInSync] = []
        for incarnation in self._awaited:
            at = self._end_of(incarnation)
            if at < required_offset:
                behind.append(FollowerBehind(self.tp, incarnation.broker_id, at, required_offset))
        if not self.has_enough_in_sync_replicas:
            behind.append(TooFewInSync(self.tp, len(self.isr), self.min_in_sync_replicas))
        return behind

    # --- the follower ---

    def append_as_follower(
        self, records: Buffer, *, leader_high_watermark: int, leader_log_start_offset: int, wall_ms: int
    ) -> bool:
        """Append the leader's records, and adopt its watermarks; returns whether the high watermark advanced.

        Raises:
            MemoryExhausted: the batches were not appended, but the watermarks are adopted as far as the log goes: the
                memory cap deletes only records below the high watermark.
            LogError: the batches do not continue this log.
        """
        before = self.high_watermark
        try:
            self._append_fetched(records, leader_high_watermark, wall_ms)
        except MemoryExhausted:
            if not self._adopt_watermarks(leader_high_watermark, leader_log_start_offset):
                raise
            self._append_fetched(records, leader_high_watermark, wall_ms)  # more may be deleted now
        self._adopt_watermarks(leader_high_watermark, leader_log_start_offset)
        return self.high_watermark > before

    def _append_fetched(self, records: Buffer, leader_high_watermark: int, wall_ms: int) -> None:
        if len(records):
            self.log.append_as_follower(
                records, wall_ms=wall_ms, leader_epoch=self.leader_epoch, committed_offset=leader_high_watermark
            )

    def _adopt_watermarks(self, leader_high_watermark: int, leader_log_start_offset: int) -> bool:
        if leader_log_start_offset > self.log.log_start_offset:
            self.log.advance_log_start(leader_log_start_offset)
        reached = min(leader_high_watermark, self.log.log_end_offset)
        if reached <= self.high_watermark:
            return False
        self.log.commit_to(reached)
        return True

    def truncate_to(self, offset: int) -> None:
        """Delete all records from `offset` on, since the leader's log diverges there (KIP-101)."""
        self.log.truncate_to(offset)

    def restart_at(self, offset: int) -> None:
        """Delete all records and restart at `offset`, since the leader lacks the record after this log's end."""
        self.log.truncate_fully_and_start_at(offset)
