"""The history of a cluster: operations of its clients, and the faults. `simulation.checkers` finds anomalies in it.

A history may come from a simulation, or from real clients of real brokers. A file has one JSON object a line. Values
are unique whole numbers, and a partition is named as in ``orders-0``. `simulation.transaction_events` has the events of
transactions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from purgatorio.simulation.history import transaction_events  # noqa: F401 - its events can be read
from purgatorio.simulation.history.event import Event as Event
from purgatorio.simulation.history.event import register


@dataclass(frozen=True, slots=True)
class Sent(Event):
    """A producer starts to send a value; `sequence` counts its values to this partition.

    A producer that restarts its count after a crash has a new name.
    """

    producer: str
    partition: str
    value: int
    sequence: int


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """The send of a value has failed: it was certainly not written."""

    producer: str
    partition: str
    value: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown(Event):
    """The send of a value has an unknown outcome: it may or may not have been written."""

    producer: str
    partition: str
    value: int
    reason: str


@dataclass(frozen=True, slots=True)
class SequenceRefused(Event):
    """A broker answered OUT_OF_ORDER_SEQUENCE_NUMBER to a producer that sends its batches in order."""

    producer: str
    partition: str
    broker: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Assigned(Event):
    """A consumer starts or restarts to read at an offset, which is negative if it does not know it yet.

    Attributes:
        reset: whether a broker sent the consumer there, since it refused the consumer's position (out of range, or of
            a diverging epoch).
    """

    consumer: str
    partition: str
    offset: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Polled(Event):
    """A consumer received records: pairs of offset and value.

    Attributes:
        high_watermark: from the response; negative if the response did not give it.
        final: whether the final reader polled, which reads everything after all faults are healed and all producers
            have ended.
        broker: the broker that answered; negative if that is not known.
        leader_epoch: the leader epoch in which it answered; negative if that is not known.
        follower: whether that broker answered as a follower (KIP-392).
        asked_ms: when the consumer sent the request; negative if that is not known: after its event before this one.
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


@dataclass(frozen=True, slots=True)
class Drained(Event):
    """The final reader has read a partition from its start to its end; its polls come before this event."""

    partition: str
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Fault(Event):
    """A fault was started or undone."""

    what: str


@dataclass(frozen=True, slots=True)
class Cleaned(Event):
    """From now on the log of a partition may lose records as its cleanup.policy says.

    Attributes:
        deletes: whether the oldest records may go, by retention or DeleteRecords.
        keys: if the log is compacted, the number of keys; the key of a record is its value modulo this. Else 0.
    """

    partition: str
    deletes: bool
    keys: int


@dataclass(frozen=True, slots=True)
class FencedAnswer(Event):
    """A broker acted as leader after the cluster had fenced it."""

    broker: int
    partition: str
    what: str


@dataclass(frozen=True, slots=True)
class LeaderElected(Event):
    """A partition has a new leader or leader epoch.

    Attributes:
        broker: the leader; negative if there is none.
    """

    partition: str
    broker: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicRecreated(Event):
    """The topic of a partition was deleted and created again: its log begins anew, and its leader epochs."""

    partition: str


@dataclass(frozen=True, slots=True)
class UncleanElection(Event):
    """An operator ran an unclean election on a partition without an eligible leader; records may be lost."""

    partition: str


@dataclass(frozen=True, slots=True)
class GroupAssigned(Event):
    """The coordinator of a group told a member what it owns.

    Attributes:
        member: the client; it has this name as a consumer, too (`Polled`).
        identity: the member id, or the instance id of a static member, which outlives its client.
        generation: the generation, or the member epoch (KIP-848); negative if it tells nothing.
        partitions: all that the member owns from now on.
    """

    group: str
    member: str
    identity: str
    generation: int
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupBeat(Event):
    """The coordinator took the heartbeat of a member of a classic group, which was sent at `asked_ms`."""

    group: str
    member: str
    generation: int
    asked_ms: int


@dataclass(frozen=True, slots=True)
class OffsetCommitted(Event):
    """An attempt to commit an offset ended.

    Attributes:
        identity: as in `GroupAssigned`.
        outcome: "acked"; "refused": it was certainly not written; "unknown": it may still be.
    """

    group: str
    identity: str
    generation: int
    partition: str
    offset: int
    asked_ms: int
    outcome: str


@dataclass(frozen=True, slots=True)
class OffsetRead(Event):
    """A client, which asked at `asked_ms`, was told the committed offset of a group; -1: there is none."""

    group: str
    partition: str
    offset: int
    asked_ms: int


E = TypeVar("E", bound=Event)

register(
    Sent,
    Acked,
    Failed,
    Unknown,
    SequenceRefused,
    Assigned,
    Polled,
    Drained,
    Cleaned,
    Fault,
    FencedAnswer,
    LeaderElected,
    TopicRecreated,
    UncleanElection,
    GroupAssigned,
    GroupBeat,
    OffsetCommitted,
    OffsetRead,
)


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
