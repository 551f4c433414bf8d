"""What clients did and saw, and what was done to the cluster: the record that `broker.simulation.checkers` judges.

A history may come from a simulation or from real clients against real processes: one JSON object a line. Values are
unique whole numbers, and a partition is named as in ``orders-0``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `time_ms`, by the clock of whoever wrote it down."""

    time_ms: int

    def to_json(self) -> str:
        """One line."""
        return json.dumps({"type": type(self).__name__, **asdict(self)}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Sent(Event):
    """A producer begins to send a value: its `sequence`-th to this partition."""

    producer: str
    partition: str
    value: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Acked(Event):
    """A value was acknowledged; `offset` is -1 where the answer did not say it."""

    producer: str
    partition: str
    value: int
    offset: int
    acks: int


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """A value was certainly not written."""

    producer: str
    partition: str
    value: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown(Event):
    """A value may or may not have been written."""

    producer: str
    partition: str
    value: int
    reason: str


@dataclass(frozen=True, slots=True)
class Assigned(Event):
    """A consumer begins, or begins anew, at an offset."""

    consumer: str
    partition: str
    offset: int


@dataclass(frozen=True, slots=True)
class Polled(Event):
    """A consumer received records: pairs of offset and value.

    Attributes:
        high_watermark: as the answer told it; -1 where it did not.
        final: read by who reads everything after the faults have healed.
    """

    consumer: str
    partition: str
    records: tuple[tuple[int, int], ...]
    high_watermark: int
    final: bool = False


@dataclass(frozen=True, slots=True)
class Drained(Event):
    """The final reader has read a partition from its beginning to its end."""

    partition: str
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Fault(Event):
    """Something was done to the cluster, or undone."""

    what: str


@dataclass(frozen=True, slots=True)
class FencedAnswer(Event):
    """A broker acknowledged as leader what it received after the cluster had fenced it."""

    broker: int
    partition: str
    what: str


@dataclass(frozen=True, slots=True)
class UncleanElection(Event):
    """The operator gave up the records of a partition that had no eligible leader."""

    partition: str


E = TypeVar("E", bound=Event)

_TYPES: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (Sent, Acked, Failed, Unknown, Assigned, Polled, Drained, Fault, FencedAnswer, UncleanElection)
}


class History:
    """Events in the order in which they were written down."""

    MAX_EVENTS: ClassVar[int] = 5_000_000

    def __init__(self) -> None:
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def record(self, event: Event) -> None:
        """Write an event down.

        Raises:
            OverflowError: there are MAX_EVENTS already.
        """
        if len(self._events) >= self.MAX_EVENTS:
            raise OverflowError(f"a history holds at most {self.MAX_EVENTS} events")
        self._events.append(event)

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of one kind."""
        return (event for event in self._events if isinstance(event, kind))

    def lines(self) -> Iterator[str]:
        """One JSON object for each event."""
        return (event.to_json() for event in self._events)

    def digest(self) -> str:
        """The same for the same history, and only for it: SHA-256 over its lines."""
        sha = hashlib.sha256()
        for line in self.lines():
            sha.update(line.encode() + b"\n")
        return sha.hexdigest()

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text("".join(line + "\n" for line in self.lines()))

    @classmethod
    def read(cls, path: Path) -> History:
        """Read it from a file.

        Raises:
            ValueError: a line is no event; the message names the line.
        """
        history = cls()
        with path.open() as lines:
            for number, line in enumerate(lines, 1):
                try:
                    history.record(_event(json.loads(line)))
                except (KeyError, TypeError, ValueError) as error:
                    raise ValueError(f"{path}:{number}: this is no event: {error}") from error
        return history


def _event(row: dict[str, Any]) -> Event:
    kind = _TYPES[row.pop("type")]
    known = {field.name for field in fields(kind)}
    if "records" in known:
        row["records"] = tuple((offset, value) for offset, value in row["records"])
    return kind(**row)
