"""What the events of a history have in common: a time, and a line of JSON that they are written to and read from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Event:
    """One event at `time_ms`, by the clock of the process that records the history."""

    time_ms: int

    def to_json(self) -> str:
        """Return the event as one line of JSON; equal events give equal lines."""
        kind = type(self).__name__
        return _encode({"type": kind} | {name: getattr(self, name) for name in _FIELDS[kind]})

    @staticmethod
    def from_json(line: str) -> Event:
        """Read an event from a line of JSON.

        Raises:
            ValueError: the line is no event.
        """
        row = json.loads(line)
        try:
            kind = row.pop("type")
            read = _FIELDS[kind]
            return _TYPES[kind](**{name: read[name](value) for name, value in row.items()})
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _whole(value: object) -> int:
    # isinstance takes a bool for an int.
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


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list of texts")
    return tuple(map(_text, value))


_READERS: Final[dict[Any, Callable[[object], Any]]] = {
    "int": _whole,
    "str": _text,
    "bool": _flag,
    "tuple[tuple[int, int], ...]": _records,
    "tuple[str, ...]": _texts,
}

_TYPES: Final[dict[str, type[Event]]] = {}
_FIELDS: Final[dict[str, dict[str, Callable[[object], Any]]]] = {}
"""The fields of each kind of event in order, with the function that reads each, by the kind's name."""


def register(*kinds: type[Event]) -> None:
    """Make kinds of events known, so that they can be written and read.

    Raises:
        KeyError: a field is of a type that has no reader.
    """
    for kind in kinds:
        _TYPES[kind.__name__] = kind
        _FIELDS[kind.__name__] = {field.name: _READERS[field.type] for field in fields(kind)}
