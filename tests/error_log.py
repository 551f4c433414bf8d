"""Errors in the log: a test that logs one fails, unless it expects it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_TOPIC = "not found in cluster metadata"
"""kafka-python and aiokafka log an error when their own Metadata request creates a topic, and ask again."""
_CLOSED = "Metadata refresh: failed Cancelled"
"""kafka-python logs an error when its consumer is closed while it asks for metadata."""
_FORMATTER = logging.Formatter("%(name)s: %(message)s")


class ErrorLog(logging.Handler):
    """The records of level ERROR and above that were logged in this process and that the test has not expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record once, though it passes several loggers."""
        if record.name in ("kafka.cluster", "aiokafka.cluster") and any(
            words in record.getMessage() for words in (_NEW_TOPIC, _CLOSED)
        ):
            return
        if all(record is not kept for kept in self._records):
            self._records.append(record)

    def expect(self, words: str) -> None:
        """Take out one record that holds these words in its message or traceback.

        Raises:
            AssertionError: there is none.
        """
        for record in self._records:
            if words in _FORMATTER.format(record):
                self._records.remove(record)
                return
        raise AssertionError(f"no error with {words!r} was logged, but {self.unexpected()}")

    def unexpected(self) -> list[str]:
        """The records that are left, with their tracebacks."""
        return [_FORMATTER.format(record) for record in self._records]


@contextmanager
def watching() -> Iterator[ErrorLog]:
    """Collect errors.

    The library's logger is watched beside the root, so that a test may exchange the root's handlers.
    """
    log = ErrorLog()
    watched = (logging.getLogger(), logging.getLogger("purgatorio"))
    for logger in watched:
        logger.addHandler(log)
    try:
        yield log
    finally:
        for logger in watched:
            logger.removeHandler(log)
