"""What the library logs, for tests that look at it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from purgatorio.logger import LogEvent

LIBRARY = logging.getLogger("purgatorio")


class _Entries(logging.Handler):
    def __init__(self, entries: list[dict[str, Any]]) -> None:
        super().__init__()
        self._entries = entries

    def emit(self, record: logging.LogRecord) -> None:
        message: Any = record.msg
        fields = message.fields if isinstance(message, LogEvent) else {}
        event = message.event if isinstance(message, LogEvent) else record.getMessage()
        traceback = {"exc_info": True} if record.exc_info else {}
        self._entries.append({**fields, **traceback, "event": event, "log_level": record.levelname.lower()})


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Collect what the library logs at any level: the fields of each entry, its `event` and its `log_level`.

    Nothing of it reaches other handlers: a test that captures an error expects it.
    """
    entries: list[dict[str, Any]] = []
    handlers, level, propagate = LIBRARY.handlers[:], LIBRARY.level, LIBRARY.propagate
    LIBRARY.handlers[:], LIBRARY.propagate = [_Entries(entries)], False
    LIBRARY.setLevel(logging.DEBUG)
    try:
        yield entries
    finally:
        LIBRARY.handlers[:], LIBRARY.propagate = handlers, propagate
        LIBRARY.setLevel(level)


@contextmanager
def silenced(**levels: int) -> Iterator[None]:
    """Let loggers write nothing below their given levels, by the loggers' names."""
    before = {name: logging.getLogger(name).level for name in levels}
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
