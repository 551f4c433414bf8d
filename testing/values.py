"""The values that a test reads of its cluster."""

from __future__ import annotations

from typing import Any, Literal

from purgatorio.late import dataclass

IsolationLevel = Literal["read_uncommitted", "read_committed"]
"""Kafka's `isolation.level`: whether a reader gets the records of aborted and of open transactions."""


@dataclass(frozen=True, slots=True)
class Parked:
    """A request, or another operation, that waits in a broker's purgatory.

    Attributes:
        broker: the id of the broker.
        id: the operation's number, unique in this cluster while it waits.
        purgatory: Kafka's name of the purgatory: "Produce", "Fetch", "Rebalance" …
        client: the client id; empty if no client waits for it.
        keys: what it watches, as the page shows it.
        missing: a sentence: what it waits for.
        causes: the same as data, such as `FollowerBehind` with `tp`, `broker_id`, `at_offset` and `wanted_offset`
            (docs/causes.md lists them).
        waited_ms: how long it has waited, on the broker's clock.
        left_ms: how long until its deadline.
    """

    broker: int
    id: int
    purgatory: str
    client: str
    keys: tuple[str, ...]
    missing: str
    causes: tuple[Any, ...]
    waited_ms: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client, and what became of it.

    Attributes:
        number: counts the requests of the cluster.
        at_ms: when it was received, on the broker's clock.
        broker: the id of the broker that was asked.
        api, version: the API's name and version.
        client: the client id.
        topics: the topics that it names, at most ten; a topic that the broker does not know is an id in hexadecimal
            digits.
        ended: "waiting", "answered", "unanswered" (a produce request with acks=0), or "disconnected".
        took_ms: the time until its end; None while it waits.
        errors: the names of the errors in the answer, each once.
    """

    number: int
    at_ms: int
    broker: int
    api: str
    version: int
    client: str
    topics: tuple[str, ...]
    ended: str
    took_ms: int | None
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record in a log.

    Attributes:
        topic, partition, offset: where it is.
        key, value, headers: its content.
        timestamp_ms: its timestamp.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation whose time was over.

    Attributes:
        broker: the id of the broker.
        purgatory: Kafka's name of the purgatory: "Produce", "Fetch", "Heartbeat" …
        client: the client id; empty if no client waited for it.
        keys: what it watched, as the page shows it.
        missing: a sentence: what it still waited for.
        causes: the same as data; see `Parked`.
        waited_ms: how long it had waited, on the broker's clock.
    """

    broker: int
    purgatory: str
    client: str
    keys: tuple[str, ...]
    missing: str
    causes: tuple[Any, ...]
    waited_ms: int

    def __str__(self) -> str:
        whose = f" of {self.client}" if self.client else ""
        return f"broker {self.broker} {self.purgatory}{whose} after {self.waited_ms} ms: {self.missing}"


@dataclass(frozen=True, slots=True)
class Advanced:
    """The effects of a move of the brokers' clock.

    Attributes:
        seconds: how far it moved.
        ended: the operations whose time was over, without fetches of followers.
        changes: changes of leaders and in-sync replicas, as sentences.
    """

    seconds: float
    ended: tuple[Ended, ...]
    changes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"the brokers' clock moved {self.seconds:g} s", *map(str, self.ended), *self.changes]
        return "\n  ".join(lines)


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group.

    Attributes:
        name: its id.
        state: as Kafka names it: "Stable", "PreparingRebalance" …
        coordinator: the id of the broker that coordinates it.
        epoch: the generation, or the group epoch of the consumer protocol.
        members: the ids of its members, in the order of joining.
        waits_for: a sentence: what its rebalance waits for; empty without one.
    """

    name: str
    state: str
    coordinator: int
    epoch: int
    members: tuple[str, ...]
    waits_for: str


def record_bytes(part: object) -> bytes | None:
    """Return the key or the value of a record as a broker keeps it.

    Raises:
        TypeError: it is neither bytes nor text nor None.
    """
    if isinstance(part, str):
        return part.encode()
    if part is None or isinstance(part, bytes):
        return part
    raise TypeError(f"keys and values are bytes, str or None, not {type(part).__name__}: {part!r}")
