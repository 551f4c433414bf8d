"""The shapes of the JSON API's responses.

Points in time end in ``_ms`` and are on the cluster's monotonic clock, as `now_ms` of the same document is. Long lists
are cut; a number beside them is their full length.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Kind = str
"""The kind of request: "consumer fetch", "follower fetch", or the purgatory in words: "produce", "elect leader" …"""


class Operation(TypedDict):
    """A parked operation. `missing` is a sentence: what it waits for; `causes` are the first parts of that as data."""

    id: int
    kind: Kind
    keys: list[str]
    key_count: int
    parked_ms: int
    deadline_ms: int
    waited_ms: int
    remaining_ms: int
    checks: int
    missing: str
    causes: list[Any]
    client: str


class Bucket(TypedDict):
    """A bucket of a wheel that is not empty: it covers one tick of its level, from `expiration_ms` on."""

    expiration_ms: int
    entries: int


class Level(TypedDict):
    """A level of a wheel: `wheel_size` buckets of `tick_ms` each."""

    tick_ms: int
    wheel_size: int
    current_ms: int
    buckets: list[Bucket]


class WatchList(TypedDict):
    """The number of entries that wait for an event on a key."""

    key: str
    watched: int


class Purgatory(TypedDict):
    """A purgatory: `watched` is Kafka's PurgatorySize, `num_delayed` its NumDelayedOperations."""

    name: str
    watched: int
    num_delayed: int
    operations: list[Operation]
    watch_lists: list[WatchList]
    wheel: list[Level]


class Follower(TypedDict):
    """How a broker's follower fetches are held back."""

    held: bool
    delay_ms: int


class Lease(TypedDict):
    """A broker's lease: its id in the metadata (-1: none), and whether it lasts by the broker's own reckoning."""

    id: int
    held: bool


class Process(TypedDict):
    """A broker's process: its id, and what is wrong with it, as the end of a sentence ("": nothing)."""

    id: int
    trouble: str


class Member(TypedDict):
    """A broker of this process, running or not.

    `host` and `port` of a broker that does not run are its last ones ("" and 0 if it never ran). `registered`,
    `broker_epoch` (-1: none) and `fenced` (its lease ran out) are from the metadata. `paused`: it was told to stand
    still; `cut_off_from`: the brokers that it was told not to reach. `process`: if each broker is a process.
    """

    id: int
    state: Literal["running", "stopping", "starting", "stopped"]
    host: str
    port: int
    registered: bool
    controller: bool
    broker_epoch: int
    fenced: bool
    lease: Lease
    paused: bool
    cut_off_from: list[int]
    process: NotRequired[Process]


class Broker(Member):
    """A broker with its parked operations; if it does not run, `follower` is None and there are none."""

    connections: int
    follower: Follower | None
    finished_total: int
    purgatories: list[Purgatory]


class Reassignment(TypedDict):
    """The replicas that a reassignment adds and removes."""

    adding: list[int]
    removing: list[int]


class Placement(TypedDict):
    """The leader and replicas of a partition in the metadata.

    A partition without a leader is `offline`, and its `leader` is -1. `elr`: the eligible leader replicas (KIP-966).
    `internal`: its topic is the brokers' own.
    """

    topic: str
    partition: int
    internal: bool
    leader: int
    leader_epoch: int
    partition_epoch: int
    offline: bool
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    reassignment: Reassignment | None


class Elected(TypedDict):
    """The result of an election: `error` is the name of a Kafka error code, NONE if `leader` was elected."""

    topic: str
    partition: int
    error: str
    message: str
    leader: int
    leader_epoch: int


class Replica(TypedDict):
    """One replica of a partition.

    `acknowledged_offset` is the log end offset that the leader knows of (for the leader its own; -1 before the first
    fetch); the high watermark depends on it. `log_end_offset` is the replica's own; None if the replica is not in this
    process, or its broker does not run. `refusal` is the reason why the replica has not appended the last answer of its
    leader, None if it has, or is in another process.
    """

    broker: int
    leader: bool
    in_sync: bool
    eligible: bool
    log_end_offset: int | None
    acknowledged_offset: int
    lag: int
    refusal: str | None


class Holding(TypedDict):
    """The transaction that holds the last stable offset of a partition, as far as the brokers of this process know it.

    `transactional_id` is "" and `timeout_left_ms` None if no coordinator of it runs here. `open_ms` is None for a
    transaction that has ended, but whose end marker is not committed yet. `says` tells all this in a sentence.
    """

    producer_id: int
    transactional_id: str
    open_ms: int | None
    timeout_left_ms: int | None
    says: str


class Partition(TypedDict):
    """A partition: its leader and replicas in the metadata, and its log as the leader knows it.

    If the leader does not run in this process, the log is that of a replica that runs; if none runs, the offsets are 0
    and `min_in_sync_replicas` is None. `held_by` is None unless the last stable offset is below the high watermark.
    """

    topic: str
    partition: int
    internal: bool
    leader: int
    leader_epoch: int
    partition_epoch: int
    offline: bool
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    held_by: Holding | None
    min_in_sync_replicas: int | None
    isr: list[int]
    elr: list[int]
    reassignment: Reassignment | None
    replicas: list[Replica]


class Finished(TypedDict):
    """The end of an operation, and its cause; if it ended unmet, `detail` and `causes` have what it still missed."""

    broker: int
    purgatory: str
    id: int
    kind: Kind
    keys: list[str]
    key_count: int
    parked_ms: int
    done_ms: int
    deadline_ms: int
    waited_ms: int
    outcome: Literal["completed", "expired", "cancelled", "shutdown", "error"]
    cause: str
    checks: int
    detail: str
    causes: list[Any]
    client: str
    held_by: list[int]
    """The brokers for which it waited last."""


class Owned(TypedDict):
    """Partitions of a topic that a member consumes: the first ones, and their number."""

    topic: str
    partitions: list[int]
    partition_count: int


class GroupMember(TypedDict):
    """A member of a group.

    `owned` is None if the protocol of the group is not that of consumers. `waits_for` says what it waits for or has to
    do, in a few words. `session_left_ms` is the time until it is taken for dead, which each heartbeat sets to
    `session_timeout_ms` (None: unknown).
    """

    member_id: str
    instance_id: str | None
    client: str
    host: str
    epoch: int
    owned: list[Owned] | None
    waits_for: str
    session_left_ms: int | None
    session_timeout_ms: int


class Group(TypedDict):
    """A group.

    `type`: classic or consumer (KIP-848). `epoch`: the generation, or the group epoch. `lag`: the records that the
    group has still to consume of the `offset_count` partitions for which it has committed offsets; None if unknown: too
    many partitions, or no replica of them runs here. `waits_for`: whom a rebalance waits for, in a sentence.
    """

    id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    epoch: int
    coordinator: int
    member_count: int
    offset_count: int
    lag: int | None
    waits_for: str


class ShownGroup(Group):
    """A group with its first members."""

    members: list[GroupMember]


class GroupOffset(TypedDict):
    """A partition that a group consumes, or has consumed.

    `offset`: the committed offset (None: none yet). `end_offset`: the high watermark (None: no replica runs
    here). `owner`: the id of the member that consumes it now ("": none).
    """

    topic: str
    partition: int
    offset: int | None
    end_offset: int | None
    lag: int | None
    metadata: str
    owner: str


class DescribedGroup(ShownGroup):
    """A group with its members and offsets."""

    offsets: list[GroupOffset]


class ResetOffset(TypedDict):
    """A committed offset that was reset; `before` is None if there was none."""

    topic: str
    partition: int
    before: int | None
    after: int


class Transaction(TypedDict):
    """A transactional id, with the transaction that it has or had last.

    `state` has Kafka's name. `open_ms` is None if no transaction is open or being ended, `timeout_left_ms` if its end
    is decided too. `idle_ms` is the time since the state changed last. `missing_markers`: the partitions that lack
    their end marker. `waits_for`: what its transition waits for, in a sentence; `causes`: the same as data.
    """

    id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    open_ms: int | None
    timeout_ms: int
    timeout_left_ms: int | None
    idle_ms: int
    partition_count: int
    missing_markers: int
    waits_for: str
    causes: list[Any]


class ShownTransaction(Transaction):
    """A transactional id with the names of the first partitions of its transaction."""

    partitions: list[str]


class TransactionPartition(TypedDict):
    """A partition of a transaction: its leader (-1: none), and whether its end marker is still to be written."""

    topic: str
    partition: int
    leader: int
    marker_missing: bool


class DescribedTransaction(Transaction):
    """A transactional id with the partitions of its transaction."""

    partitions: list[TransactionPartition]


class TransactionCounts(TypedDict):
    """The transactions of all running brokers: those that are open, and those that ended since the brokers started.

    `timed_out` counts those that were aborted because their time was over; they are among the `aborted` ones too, as
    soon as they have all markers.
    """

    ids: int
    open: int
    committed: int
    aborted: int
    timed_out: int


class HangingTransaction(TypedDict):
    """A transaction that is open in a log, and that no coordinator has as open. `id` is "" if it is not known."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    open_ms: int
    id: str


class FaultRule(TypedDict):
    """A fault rule in one line, with the requests that it matched, acted on, and holds; spent: it acts no more."""

    id: int
    text: str
    matched: int
    fired: int
    held: int
    spent: bool


class FiredFault(TypedDict):
    """A request that a fault rule acted on; `nth` counts them for that rule."""

    nth: int
    at_ms: int
    rule: int
    broker: int
    api: str
    client: str
    partitions: list[str]
    action: str


class Connection(TypedDict):
    """A connection of a client, or of another broker.

    `principal` is ``User:ANONYMOUS`` until the client has authenticated. `in_flight` requests are being worked on,
    `waiting` ones were received.
    """

    broker: int
    id: str
    listener: str
    peer: str
    client: str
    principal: str
    age_ms: int
    in_flight: int
    waiting: int
    bytes_in: int
    bytes_out: int


class State(TypedDict):
    """The whole content of the page, at one moment."""

    cluster_id: str
    now_ms: int
    wall_ms: int
    brokers: list[Broker]
    partitions: list[Partition]
    partition_count: int
    groups: list[ShownGroup]
    group_count: int
    transactions: list[ShownTransaction]
    transaction_counts: TransactionCounts
    faults: list[FaultRule]
    fault_count: int
    fired: list[FiredFault]
    finished: list[Finished]
