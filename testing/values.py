"""What a test reads of its cluster."""

from __future__ import annotations

from dataclasses import dataclass


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
        waited_ms: how long it has waited, on the broker's clock.
        left_ms: how long until its deadline.
    """

    broker: int
    id: int
    purgatory: str
    client: str
    keys: tuple[str, ...]
    missing: str
    waited_ms: int
    left_ms: int


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
