"""The shape of what the JSON API answers.

Times ending in ``_ms`` that are points in time are on the cluster's monotonic clock, as `now_ms` of the same document
is. Lists that could be long are cut; then a number beside them says how many there are.
"""

from __future__ import annotations

from typing import Literal, TypedDict

Kind = str
"""Whose request it is: "consumer fetch", "follower fetch", or the purgatory in words: "produce", "elect leader" …"""


class Operation(TypedDict):
    """A parked operation."""

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
    client: str


class Bucket(TypedDict):
    """A bucket of a wheel that holds something: from `expiration_ms` on, one tick of its level."""

    expiration_ms: int
    entries: int


class Level(TypedDict):
    """A level of a wheel: `wheel_size` buckets of `tick_ms` each."""

    tick_ms: int
    wheel_size: int
    current_ms: int
    buckets: list[Bucket]


class WatchList(TypedDict):
    """How many entries wait for an event on a key."""

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
    """A broker's lease: which one the metadata name (-1: none), and whether the broker itself reckons that it lasts."""

    id: int
    held: bool


class Member(TypedDict):
    """A broker of this process, running or not.

    `host` and `port` are the last ones of a broker that does not run ("" and 0 if it never ran). The metadata say
    whether it is `registered`, in which `broker_epoch` (-1: none), and whether it is `fenced`: its lease ran out.
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


class Broker(Member):
    """A broker with what waits there; of one that does not run `follower` is None and nothing waits."""

    connections: int
    follower: Follower | None
    finished_total: int
    purgatories: list[Purgatory]


class Reassignment(TypedDict):
    """Replicas that come and go."""

    adding: list[int]
    removing: list[int]


class Placement(TypedDict):
    """Who leads a partition and who holds it, as the metadata say.

    `leader` is -1 where there is none: then the partition is `offline`. `elr`: the eligible leader replicas (KIP-966).
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    offline: bool
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    reassignment: Reassignment | None


class Elected(TypedDict):
    """What became of an election: `error` is a Kafka error code's name, NONE if `leader` was elected."""

    topic: str
    partition: int
    error: str
    message: str
    leader: int
    leader_epoch: int


class Replica(TypedDict):
    """One copy of a partition.

    `acknowledged_offset` is where the leader believes it to be (its own log end for the leader, -1 before the first
    fetch): that is what the high watermark goes by. `log_end_offset` is where it really is; None if the replica is not
    in this process, or its broker does not run.
    """

    broker: int
    leader: bool
    in_sync: bool
    eligible: bool
    log_end_offset: int | None
    acknowledged_offset: int
    lag: int


class Partition(TypedDict):
    """A partition: who leads it, as the metadata say, and its log as its leader sees it.

    Where the leader does not run in this process, it is seen as any replica does that runs; where none runs, the
    offsets are 0 and `min_in_sync_replicas` is None.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    offline: bool
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    min_in_sync_replicas: int | None
    isr: list[int]
    elr: list[int]
    reassignment: Reassignment | None
    replicas: list[Replica]


class Finished(TypedDict):
    """What became of an operation."""

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
    client: str
    held_by: list[int]
    """The brokers that it waited for last."""


class State(TypedDict):
    """Everything that the page shows, at one moment."""

    cluster_id: str
    now_ms: int
    wall_ms: int
    brokers: list[Broker]
    partitions: list[Partition]
    partition_count: int
    finished: list[Finished]
