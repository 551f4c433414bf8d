"""The log of the library: an event and its fields, sent to the standard library's `logging`.

::

    logger = get_logger(__name__)
    logger.info("broker started", broker=1, port=9092)

A handler of `logging` writes ``broker started broker=1 port=9092``. A formatter that wants the fields themselves finds
them in the record's message, which is a `LogEvent`; the command's formatter does so
(`purgatorio.admin.cli.logging_setup`).

The loggers are named like their modules, below ``purgatorio``. A program that imports the library sees no line
until it configures `logging`: the logger ``purgatorio`` has a `logging.NullHandler`.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final

_PLAIN: Final = re.compile(r"[\w.:/@+-]+").fullmatch
_CALLER: Final = 3
"""Frames between the line that logs and `logging`: a method of `Logger`, and `Logger._log`."""


class LogEvent:
    """The message of a log record: the name of an event, and its fields.

    Args:
        event: a few words, the same each time.
        fields: the values of this time, by name.
    """

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        """The event and its fields as one line of printable characters."""
        return " ".join([self.event, *(f"{name}={_readable(value)}" for name, value in self.fields.items())])

    def __repr__(self) -> str:
        return f"LogEvent({self.event!r}, {self.fields!r})"


def _readable(value: object) -> str:
    """A value as text; quoted if its end would not be clear, or if it could control a terminal."""
    text = str(value)
    if isinstance(value, str):
        return text if _PLAIN(text) else repr(text)
    return text if text.isprintable() else repr(text)


class Logger:
    """Logs events of one module.

    Besides its fields a call may be given the two options of `logging`: ``exc_info`` (True, or the exception) and
    ``stack_info`` (True).

    Args:
        logger: the logger that gets the records.
    """

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: object) -> None:
        """Log a detail for maintainers."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Log a normal event."""
        if self._logger.isEnabledFor(logging.INFO):
            self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log an event that an operator may have to look at."""
        if self._logger.isEnabledFor(logging.WARNING):
            self._log(logging.WARNING, event, fields)

    def warn_within(self, budget: LineBudget, now_ms: int, event: str, /, **fields: object) -> None:
        """Log a warning, or leave it out if its budget is used up; the next one has the number of those left out."""
        left_out = budget.take(now_ms)
        if left_out is not None and self._logger.isEnabledFor(logging.WARNING):
            self._log(logging.WARNING, event, fields | {"lines_left_out": left_out} if left_out else fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Log a failure of the broker itself."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._log(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """Log a failure with the traceback of the exception that is being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._log(logging.ERROR, event, {"exc_info": True, **fields})

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        exc_info, stack_info = fields.pop("exc_info", None), fields.pop("stack_info", False)
        self._logger.log(level, LogEvent(event, fields), exc_info=exc_info, stack_info=stack_info, stacklevel=_CALLER)


def get_logger(name: str) -> Logger:
    """The logger of a module.

    Args:
        name: the module's ``__name__``.
    """
    return Logger(logging.getLogger(name))


LINES_PER_PERIOD: Final = 10
"""Lines of one reason within `PERIOD_MS`: enough to see whether one client or many are refused."""
PERIOD_MS: Final = 10_000
MAX_TEXT_CHARS: Final = 200
"""The longest value in a line. Topic names have at most 249 characters, client ids of real clients far fewer."""


class LineBudget:
    """The lines of one reason in the current period of `PERIOD_MS`.

    Args:
        lines: how many there may be.
    """

    def __init__(self, lines: int = LINES_PER_PERIOD) -> None:
        self._lines = lines
        self._ends_ms: int | None = None
        self._left = 0
        self._left_out = 0

    def take(self, now_ms: int) -> int | None:
        """Take one line; return how many were left out before it, or None if this one is left out."""
        if self._ends_ms is None or now_ms >= self._ends_ms:
            self._ends_ms = now_ms + PERIOD_MS
            self._left = self._lines
        if not self._left:
            self._left_out += 1
            return None
        self._left -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def cut(text: str, most_chars: int = MAX_TEXT_CHARS) -> str:
    """Return a text that came from a client, without its end if it is too long for a log line."""
    if len(text) <= most_chars:
        return text
    return f"{text[:most_chars]}… ({len(text)} characters)"
