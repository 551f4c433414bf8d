"""Causes of waits. A delayed operation tells its own in `causes`; nothing is made before somebody looks."""

from __future__ import annotations

from dataclasses import dataclass

from purgatorio.broker.log.topic_partition import TopicPartition


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
        quota: the quota with its rate, in words.
    """

    tp: TopicPartition
    quota: str


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


Cause = FollowerBehind | TooFewInSync | NoRecordsYet
