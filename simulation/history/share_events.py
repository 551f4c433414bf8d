"""The events of share groups (KIP-932): acquisitions, acknowledgements, locks that brokers ended, dead letters."""

from __future__ import annotations

from purgatorio.simulation.history.event import Event


class ShareAcquired(Event):
    """A member of a share group, which asked at `asked_ms`, acquired records, each with its delivery count.

    Those from `first_offset` to `last_offset`; `values` are pairs of offset and value of those that the log has.
    """

    group: str
    member: str
    partition: str
    first_offset: int
    last_offset: int
    delivery_count: int
    asked_ms: int
    broker: int
    values: tuple[tuple[int, int], ...] = ()


class ShareAcknowledged(Event):
    """A member of a share group acknowledged records at `asked_ms`, and the request has ended.

    The types are Kafka's, one for all or one for each offset. The outcome is "acked"; "refused": certainly not written;
    "unknown": it may be written, or become so.
    """

    group: str
    member: str
    partition: str
    first_offset: int
    last_offset: int
    types: tuple[int, ...]
    asked_ms: int
    outcome: str


class ShareEnded(Event):
    """A broker ended locks of a share group on a partition before their time: those of a member, or all.

    The member's share session is over; or `member` is empty, and the broker gives the share partition up.
    """

    group: str
    member: str
    partition: str


class ShareWriteFailed(Event):
    """A leader could not write the state of records of a share group: how often they were delivered may be lost."""

    group: str
    partition: str


class SharePromise(Event):
    """The promise to a share group: how long a lock lasts, and how often a record is delivered at most."""

    group: str
    lock_ms: int
    delivery_limit: int


class DeadLetterPromise(Event):
    """The promise that records which a share group gives up go to its dead-letter topic."""

    group: str


class ShareGivenUp(Event):
    """A share coordinator has written that a leader gives records of a share group up: they are to have dead letters.

    `delivery_count` says how often they were delivered.
    """

    group: str
    partition: str
    first_offset: int
    last_offset: int
    delivery_count: int


class DeadLetter(Event):
    """A dead letter was in the topic when all was quiet: of a record that a share group has given up, and why."""

    group: str
    partition: str
    offset: int
    message: str


class DeadLettersLost(Event):
    """A leader archived records of a share group, and said why they have no dead letters."""

    group: str
    partition: str
    first_offset: int
    last_offset: int
    why: str
