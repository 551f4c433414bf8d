"""The history of a cluster: operations of its clients, and the faults. `simulation.checkers` finds anomalies in it.

A history may come from a simulation, or from real clients of real brokers. A file has one JSON object a line. Values
are unique whole numbers, and a partition is named as in ``orders-0``.

A transaction has a number of its own, as one transactional id has many, also at one epoch. Its records are values as
any others: `Sent`, `Acked`, `Failed` and `Unknown` record them, and readers without isolation `Polled` them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from purgatorio.simulation.history import share_events
from purgatorio.simulation.history.event import Event

FURTHER_EVENTS: Final = (share_events,)
"""Modules with further kinds of events: `Event.from_json` knows those that are imported."""


class Sent(Event):
    """A producer starts to send a value; `sequence` counts its values to this partition.

    A producer that restarts its count after a crash has a new name.
    """

    producer: str
    partition: str
    value: int
    sequence: int


class Acked(Event):
    """A value was acknowledged; `offset` is negative if the response did not give it.

    Attributes:
        broker: the broker that acknowledged it; negative if that is not known.
        leader_epoch: the leader epoch in which the producer took that broker for the leader; negative if not known.
    """

    producer: str
    partition: str
    value: int
    offset: int
    acks: int
    broker: int = -1
    leader_epoch: int = -1


class Failed(Event):
    """The send of a value has failed: it was certainly not written."""

    producer: str
    partition: str
    value: int
    reason: str


class Unknown(Event):
    """The send of a value has an unknown outcome: it may or may not have been written."""

    producer: str
    partition: str
    value: int
    reason: str


class SequenceRefused(Event):
    """A broker answered OUT_OF_ORDER_SEQUENCE_NUMBER to a producer that sends its batches in order."""

    producer: str
    partition: str
    broker: int
    sequence: int


class Assigned(Event):
    """A consumer starts or restarts to read at an offset, which is negative if it does not know it yet.

    With `reset` a broker sent it there, since it refused its position (out of range, or of a diverging epoch).
    """

    consumer: str
    partition: str
    offset: int
    reset: bool = False


class Polled(Event):
    """A consumer received records: pairs of offset and value. Unknown numbers are negative.

    Attributes:
        high_watermark: from the response.
        final: whether the final reader polled, which reads everything after all faults are healed and all producers
            have ended.
        leader_epoch: that in which `broker` answered.
        follower: whether that broker answered as a follower (KIP-392).
        asked_ms: when the consumer sent the request; if not known: after its event before this one.
    """

    consumer: str
    partition: str
    records: tuple[tuple[int, int], ...]
    high_watermark: int
    final: bool = False
    broker: int = -1
    leader_epoch: int = -1
    follower: bool = False
    asked_ms: int = -1


class Drained(Event):
    """The final reader has read a partition from its start to its end; its polls come before this event."""

    partition: str
    start_offset: int
    end_offset: int


class Fault(Event):
    """A fault was started or undone."""

    what: str


class Cleaned(Event):
    """From now on the log of a partition may lose records as its cleanup.policy says.

    Attributes:
        deletes: whether the oldest records may go, by retention or DeleteRecords.
        keys: if the log is compacted, the number of keys; the key of a record is its value modulo this. Else 0.
    """

    partition: str
    deletes: bool
    keys: int


class FencedAnswer(Event):
    """A broker acted as leader after the cluster had fenced it."""

    broker: int
    partition: str
    what: str


class LeaderElected(Event):
    """A partition has a new leader, or none if `broker` is negative, or leader epoch."""

    partition: str
    broker: int
    leader_epoch: int


class TopicRecreated(Event):
    """The topic of a partition was deleted and created again: its log begins anew, and its leader epochs."""

    partition: str


class UncleanElection(Event):
    """An operator ran an unclean election on a partition without an eligible leader; records may be lost."""

    partition: str


class GroupAssigned(Event):
    """The coordinator of a group assigned a member all partitions that it owns from now on.

    Attributes:
        member: the client; it has this name as a consumer, too (`Polled`).
        identity: the member id, or the instance id of a static member, which outlives its client.
        generation: the generation, or the member epoch (KIP-848); negative if it is unknown.
    """

    group: str
    member: str
    identity: str
    generation: int
    partitions: tuple[str, ...]


class GroupBeat(Event):
    """The coordinator took the heartbeat of a member of a classic group, which was sent at `asked_ms`."""

    group: str
    member: str
    generation: int
    asked_ms: int


class OffsetCommitted(Event):
    """An attempt to commit an offset ended, with `identity` as in `GroupAssigned`.

    Its outcome is "acked"; "refused": it was certainly not written; "unknown": it may still be.
    """

    group: str
    identity: str
    generation: int
    partition: str
    offset: int
    asked_ms: int
    outcome: str


class OffsetRead(Event):
    """A client, which asked at `asked_ms`, got the committed offset of a group; -1: there is none."""

    group: str
    partition: str
    offset: int
    asked_ms: int


class TxnInit(Event):
    """The coordinator gave a client a producer id and epoch for a transactional id, which fences all earlier ones."""

    client: str
    transactional_id: str
    producer_id: int
    epoch: int


class TxnBegan(Event):
    """A client begins a transaction."""

    client: str
    transactional_id: str
    txn: int
    producer_id: int
    epoch: int


class TxnWrote(Event):
    """A client is about to send a value in a transaction; `Sent` follows.

    It was made from the record at `source_offset` of the partition `source`; if that is empty, of none.
    """

    txn: int
    partition: str
    value: int
    source: str = ""
    source_offset: int = -1


class TxnCommitting(Event):
    """A client is about to ask for the first time that a transaction be committed."""

    txn: int


class TxnEnded(Event):
    """A transaction is over for its client.

    Its outcome is "committed"; "aborted": it was certainly not committed; "unknown": it may be committed, or become so.
    """

    txn: int
    outcome: str


class TxnMarker(Event):
    """A reader without isolation received the marker that ended a transaction; `final` as in `Polled`."""

    consumer: str
    partition: str
    offset: int
    producer_id: int
    epoch: int
    committed: bool
    final: bool = False


class TxnPolled(Event):
    """A reader under read_committed received records, as in `Polled`, without those of aborted transactions."""

    consumer: str
    partition: str
    records: tuple[tuple[int, int], ...]
    last_stable_offset: int
    high_watermark: int
    final: bool = False
    broker: int = -1


class TxnDrained(Event):
    """The final reader under read_committed has read a partition to its last stable offset; its polls come before."""

    partition: str
    start_offset: int
    last_stable_offset: int
    high_watermark: int


class GroupTransforms(Event):
    """The members of a group write what they read to an output topic, in transactions that commit their offsets too."""

    group: str
    output: str


E = TypeVar("E", bound=Event)


class History:
    """Events in the order in which they were recorded."""

    MAX_EVENTS: ClassVar[int] = 5_000_000

    def __init__(self) -> None:
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def record(self, event: Event) -> None:
        """Record an event.

        Raises:
            OverflowError: the history has MAX_EVENTS already.
        """
        if len(self._events) >= self.MAX_EVENTS:
            raise OverflowError(f"a history holds at most {self.MAX_EVENTS} events")
        self._events.append(event)

    def part(self, first: int, end: int) -> list[Event]:
        """Return the events from number `first` to before number `end`, counted from 0."""
        return self._events[first:end]

    def of(self, kind: type[E]) -> Iterator[E]:
        """Iterate over the events of one kind."""
        return (event for event in self._events if isinstance(event, kind))

    def lines(self) -> Iterator[str]:
        """Iterate over the events as lines of JSON."""
        return (event.to_json() for event in self._events)

    def digest(self) -> str:
        """Return the SHA-256 over the lines of the history."""
        sha = hashlib.sha256()
        for line in self.lines():
            sha.update(line.encode() + b"\n")
        return sha.hexdigest()

    def write(self, path: Path) -> None:
        """Write the history to a file."""
        with path.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in self.lines())

    @classmethod
    def read(cls, path: Path) -> History:
        """Read a history from a file.

        Raises:
            ValueError: a line is no event; the message names the line.
        """
        history = cls()
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    history.record(Event.from_json(line))
                except ValueError as error:
                    raise ValueError(f"{path}:{number}: this is no event: {error}") from error
        return history
