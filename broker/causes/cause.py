"""Causes of waits. A delayed operation tells its own in `causes`; nothing is made before somebody looks."""

from __future__ import annotations

from typing import Literal

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.late import dataclass


@dataclass(frozen=True, slots=True)
class FollowerBehind:
    """An in-sync follower does not have the records yet.

    Attributes:
        broker_id: the follower.
        at_offset: its log end offset; -1: it has not fetched yet.
        wanted_offset: the log end offset that ends the wait.
    """

    tp: TopicPartition
    broker_id: int
    at_offset: int
    wanted_offset: int


@dataclass(frozen=True, slots=True)
class LogStartBehind:
    """An in-sync replica has not deleted the records yet.

    Attributes:
        broker_id: the replica's broker.
        at_offset: its log start offset; -1: it has not fetched yet.
        wanted_offset: the log start offset that ends the wait.
    """

    tp: TopicPartition
    broker_id: int
    at_offset: int
    wanted_offset: int


@dataclass(frozen=True, slots=True)
class TooFewInSync:
    """A partition has fewer in-sync replicas than min.insync.replicas."""

    tp: TopicPartition
    in_sync_count: int
    needed_count: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open on a partition keeps consumers under read_committed from reading on.

    Attributes:
        transactional_id: "" if this broker was not told it.
        first_offset: where the transaction begins, which is the last stable offset.
        open_ms: for how long it has been open; None: it has ended, and waits for its marker to be committed.
    """

    tp: TopicPartition
    transactional_id: str
    producer_id: int
    first_offset: int
    open_ms: int | None


@dataclass(frozen=True, slots=True)
class ReplicationThrottled:
    """A quota on replication withholds records from a follower that is not in sync.

    Attributes:
        bytes_per_second: the rate, which is above the limit.
    """

    tp: TopicPartition
    bytes_per_second: float
    limit: int


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """Where a fetch reads on a partition, and what keeps it from reading on, if more than that there is no record."""

    tp: TopicPartition
    offset: int
    held_back_by: OpenTransaction | ReplicationThrottled | None


@dataclass(frozen=True, slots=True)
class NoRecordsYet:
    """There are fewer bytes to read than a fetch wants.

    Attributes:
        follower_id: the follower that fetches; None: a consumer does.
        positions: the first of its partitions.
        more_count: how many partitions it has beside these.
    """

    follower_id: int | None
    available_bytes: int
    wanted_bytes: int
    positions: tuple[FetchPosition, ...]
    more_count: int


# --- share groups ---


@dataclass(frozen=True, slots=True)
class ShareStateLoading:
    """The leader has not read the state of a share partition yet."""


@dataclass(frozen=True, slots=True)
class RecordsLocked:
    """Members of the share group have as many records of a partition as they may have at a time.

    Attributes:
        locked_count: the records that are acquired, or between the first and the last of these.
    """

    locked_count: int


@dataclass(frozen=True, slots=True)
class SharePosition:
    """Where a share group reads on a partition.

    Attributes:
        offset: the next offset to acquire; -1: the state is being loaded.
        held_back_by: what keeps the group from reading on, if more than that there is no record.
    """

    tp: TopicPartition
    offset: int
    held_back_by: ShareStateLoading | RecordsLocked | OpenTransaction | None


@dataclass(frozen=True, slots=True)
class NoShareRecordsYet:
    """There are fewer bytes to acquire than a member of a share group wants.

    Attributes:
        positions: the first of its partitions.
        more_count: how many partitions it has beside these.
    """

    group_id: str
    available_bytes: int
    wanted_bytes: int
    positions: tuple[SharePosition, ...]
    more_count: int


@dataclass(frozen=True, slots=True)
class NoShareSessionLeft:
    """The broker's share sessions, or those of the connection, are as many or as large as they may be."""

    why: str


# --- changes of the cluster ---


@dataclass(frozen=True, slots=True)
class NotDecided:
    """The metadata store has not committed a change of the cluster yet."""


@dataclass(frozen=True, slots=True)
class NoLeader:
    """A new partition has no leader yet."""

    tp: TopicPartition


@dataclass(frozen=True, slots=True)
class NotLeading:
    """A broker was elected, and this broker's image does not show it as the leader yet."""

    tp: TopicPartition
    broker_id: int


# --- groups ---


@dataclass(frozen=True, slots=True)
class AwaitedMember:
    """A member of a group, with its name for people: an instance id, a client id, or the member id again."""

    member_id: str
    name: str


@dataclass(frozen=True, slots=True)
class MembersToJoin:
    """A rebalance waits for members to join.

    Attributes:
        members: the first members that have not joined again.
        more_count: how many there are beside these.
        new_count: the member ids that were given out and have not joined yet.
    """

    group_id: str
    members: tuple[AwaitedMember, ...]
    more_count: int
    new_count: int


@dataclass(frozen=True, slots=True)
class FirstMembersToJoin:
    """The first rebalance of a group waits a fixed time for more members."""

    group_id: str
    joined_count: int


@dataclass(frozen=True, slots=True)
class MembersToSync:
    """A generation waits for members to ask for their assignment.

    Attributes:
        leader: the member that makes the assignment, if it has not sent it.
        members: the first members that have not asked.
        more_count: how many there are beside these.
    """

    group_id: str
    generation: int
    leader: AwaitedMember | None
    members: tuple[AwaitedMember, ...]
    more_count: int


@dataclass(frozen=True, slots=True)
class NoHeartbeat:
    """A member has not shown since the begin of its session time that it lives."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class NotInitialized:
    """Share partitions of a group have no state yet, without which they are assigned to no member.

    Attributes:
        partitions: the first of them.
        more_count: how many there are beside these.
        error: why the last attempt failed; "" while the share coordinators are asked.
    """

    group_id: str
    partitions: tuple[TopicPartition, ...]
    more_count: int
    error: str


@dataclass(frozen=True, slots=True)
class NotAcknowledged:
    """A member of a share group has acquired records, and has not acknowledged all of them yet.

    Attributes:
        first_offset, last_offset: the records that it acquired together.
        held_count: how many of them it has not acknowledged.
        delivery_count: how often they were delivered, this time included.
    """

    group_id: str
    member_id: str
    tp: TopicPartition
    first_offset: int
    last_offset: int
    held_count: int
    delivery_count: int


# --- transactions ---


@dataclass(frozen=True, slots=True)
class TransactionNotConfirmed:
    """The coordinator of a transaction has not confirmed that it includes some partitions.

    Attributes:
        partitions: the first of them.
        more_count: how many there are beside these.
    """

    transactional_id: str
    partitions: tuple[TopicPartition, ...]
    more_count: int = 0


@dataclass(frozen=True, slots=True)
class TransactionNotEnded:
    """A transaction is open until its producer ends it."""

    transactional_id: str
    partition_count: int


@dataclass(frozen=True, slots=True)
class StateNotCommitted:
    """The replicas do not have the next state of a transaction yet."""

    transactional_id: str
    state: str


@dataclass(frozen=True, slots=True)
class UnwrittenMarker:
    """A partition has no end marker of a transaction yet.

    Attributes:
        leader_id: the broker that shall write it; None: the partition has no leader.
        error: why it was not written at the last attempt; "" before that.
    """

    tp: TopicPartition
    leader_id: int | None
    error: str


@dataclass(frozen=True, slots=True)
class MarkersMissing:
    """A transaction that is decided waits for its end markers.

    Attributes:
        markers: the first of them.
        more_count: how many there are beside these.
    """

    transactional_id: str
    markers: tuple[UnwrittenMarker, ...]
    more_count: int


# --- share groups ---


@dataclass(frozen=True, slots=True)
class ShareCoordinatorFailed:
    """A call to a share coordinator failed, and will be made again.

    Attributes:
        tp: the partition that the group consumes; the topic's id in place of its name if the topic is gone.
        verb: what the call does with the group's state.
        broker_id: the broker that was asked; None: the state has no coordinator now.
        error: why it failed.
        retries_left: how often it will be made again if it goes on to fail, beside quick retries.
    """

    tp: TopicPartition
    group_id: str
    verb: str
    broker_id: int | None
    error: str
    retries_left: int


@dataclass(frozen=True, slots=True)
class DeadLettersNotWritten:
    """The dead letters of a share group could not be written, and will be written once more.

    Attributes:
        tp: the partition of the dead-letter topic; its first one if the topic does not exist yet.
        source: the partition whose records are given up, as ``orders-0``.
        broker_id: the leader that was asked; None: there was none.
        error: why it failed.
        tries_left: how often they will be written if that goes on to fail; then they are archived without.
    """

    tp: TopicPartition
    group_id: str
    source: str
    broker_id: int | None
    error: str
    tries_left: int


# --- the layers before the handlers ---

FaultAction = Literal["hold", "delay_ms", "answer_delay_ms", "drop"]


@dataclass(frozen=True, slots=True)
class FaultActs:
    """A fault rule makes a request or its answer wait.

    Attributes:
        fault_id: the rule's number.
        fault: its name, or its number in words.
        action: by the name of the rule's field.
        delay_ms: how long; 0: until the rule is released, or for ever.
    """

    fault_id: int
    fault: str
    api: str
    action: FaultAction
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class QuotaExceeded:
    """A connection is muted since its client is over a quota.

    Attributes:
        quota: what it counts, by the name of Kafka's MBean.
        user, client_id: who shares the quota; "": any.
        rule: the entity that has the quota.
        muted_ms: for how long.
        used, limit: in the quota's unit; of controller mutations, `used` is what is overdrawn.
    """

    quota: str
    user: str
    client_id: str
    rule: str
    muted_ms: int
    used: float
    limit: float


@dataclass(frozen=True, slots=True)
class OnlyDeadline:
    """A timer of a scene waits for its deadline, and for no event."""


Cause = (
    FollowerBehind
    | TooFewInSync
    | NoRecordsYet
    | NoShareRecordsYet
    | NoShareSessionLeft
    | LogStartBehind
    | NotDecided
    | NoLeader
    | NotLeading
    | MembersToJoin
    | FirstMembersToJoin
    | MembersToSync
    | NoHeartbeat
    | NotInitialized
    | NotAcknowledged
    | TransactionNotConfirmed
    | TransactionNotEnded
    | StateNotCommitted
    | MarkersMissing
    | ShareCoordinatorFailed
    | DeadLettersNotWritten
    | FaultActs
    | QuotaExceeded
    | OnlyDeadline
)
"""What a delayed operation tells. The causes that others of them hold are not among these."""
