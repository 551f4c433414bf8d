"""One event of a history, as a line of JSON and back."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any, ClassVar, dataclass_transform

from pydantic import ConfigDict, TypeAdapter

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass_transform(frozen_default=True)
class _Declared:
    """Makes each kind of event a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Event(_Declared):
    """One event at `time_ms`, by the clock of the process that records the history."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    time_ms: int

    def to_json(self) -> str:
        """Return the event as one line of JSON; equal events give equal lines."""
        return _encode({"type": type(self).__name__} | vars(self))

    @staticmethod
    def from_json(line: str) -> Event:
        """Read an event from a line of JSON.

        Raises:
            ValueError: the line is no event.
        """
        row = json.loads(line)
        try:
            read = _readers()[row.pop("type")]
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        event: Event = read.validate_json(json.dumps(row))
        return event


@functools.cache
def _readers() -> dict[str, TypeAdapter[Any]]:
    return {kind.__name__: TypeAdapter(kind) for kind in Event.__subclasses__()}
