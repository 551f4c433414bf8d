"""What clients did and saw, and what was done to the cluster: the record that `simulation.checkers` judges.

A history may come from a simulation or from real clients against real processes: one JSON object a line. Values are
unique whole numbers, and a partition is named as in ``orders-0``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `time_ms`, by the clock of whoever wrote it down."""

    time_ms: int

    def to_json(self) -> str:
        """One line, always the same for the same event."""
        kind = type(self).__name__
        return _encode({"type": kind} | {name: getattr(self, name) for name in _FIELDS[kind]})

    @staticmethod
    def from_json(line: str) -> Event:
        """Read what `to_json` wrote.

        Raises:
            ValueError: it is no event.
        """
        row = json.loads(line)
        try:
            kind = row.pop("type")
            read = _FIELDS[kind]
            return _TYPES[kind](**{name: read[name](value) for name, value in row.items()})
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Sent(Event):
    """A producer begins to send a value: its `sequence`-th to this partition.

    A producer that begins to count anew, after a crash, goes by a new name.
    """

    producer: str
    partition: str
    value: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Acked(Event):
    """A value was acknowledged; `offset` is negative where the answer did not say it."""

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
    """A consumer begins, or begins anew, at an offset; negative where the consumer does not know it yet."""

    consumer: str
    partition: str
    offset: int


@dataclass(frozen=True, slots=True)
class Polled(Event):
    """A consumer received records: pairs of offset and value.

    Attributes:
        high_watermark: as the answer told it; negative where it did not.
        final: read by who reads everything after the faults have healed and the producers have ended.
    """

    consumer: str
    partition: str
    records: tuple[tuple[int, int], ...]
    high_watermark: int
    final: bool = False


@dataclass(frozen=True, slots=True)
class Drained(Event):
    """The final reader has read a partition from its beginning to its end: its last poll lies before this."""

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

_TYPES: Final[dict[str, type[Event]]] = {
    kind.__name__: kind
    for kind in (Sent, Acked, Failed, Unknown, Assigned, Polled, Drained, Fault, FencedAnswer, UncleanElection)
}


def _whole(value: object) -> int:
    # A bool is an int to isinstance, and no offset.
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _records(value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list of records")
    return tuple((_whole(offset), _whole(polled)) for offset, polled in value)


_READERS: Final[dict[Any, Callable[[object], Any]]] = {
    "int": _whole,
    "str": _text,
    "bool": _flag,
    "tuple[tuple[int, int], ...]": _records,
}

_FIELDS: Final = {name: {field.name: _READERS[field.type] for field in fields(kind)} for name, kind in _TYPES.items()}
"""By the name of a kind of event: its fields in their order, and how each is read."""


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
        with path.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in self.lines())

    @classmethod
    def read(cls, path: Path) -> History:
        """Read it from a file.

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
