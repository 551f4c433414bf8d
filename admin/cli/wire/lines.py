"""Records from lines: the standard input, cut at a delimiter, and each line as a record."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from purgatorio.admin.operations.record_json import Headers, JsonRecord, NotARecord, parse_record

CHUNK_BYTES: Final = 256 * 1024
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The longest line: a request may have 100 MB."""


class LineError(Exception):
    """A line is no record; the message begins with its number."""


class Input:
    """Chunks of the standard input, each read by a thread when it is asked for: a read may take for ever.

    The thread ends with the process. It reads the descriptor itself, since Python's buffer has a lock that the end of
    the process would wait for.
    """

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[asyncio.Future[bytes]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._serve, args=(_reader(),), daemon=True, name="stdin").start()

    def next(self) -> asyncio.Future[bytes]:
        """Return the next chunk by and by; it is empty at the end."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._wanted.put(future)
        return future

    def _serve(self, read: Callable[[], bytes]) -> None:
        while True:
            future = self._wanted.get()
            try:
                settle = partial(_settle, future, read(), None)
            except OSError as error:
                settle = partial(_settle, future, b"", error)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(settle)


def _settle(future: asyncio.Future[bytes], data: bytes, error: OSError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(data)
    else:
        future.set_exception(error)


def _reader() -> Callable[[], bytes]:
    stream = sys.stdin.buffer
    try:
        return partial(os.read, stream.fileno(), CHUNK_BYTES)
    except (OSError, ValueError):  # not a file
        return partial(stream.read, CHUNK_BYTES)


class Splitter:
    """Cuts chunks into lines at a delimiter.

    Raises:
        LineError: a line is longer than `MAX_LINE_BYTES`.
    """

    def __init__(self, delimiter: bytes) -> None:
        self.count = 0
        self._delimiter = delimiter
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the numbers and texts of the lines that end in this chunk; an empty one is the end of all."""
        start = max(0, len(self._rest) - len(self._delimiter) + 1)
        self._rest += chunk
        if chunk and self._rest.find(self._delimiter, start) < 0:
            if len(self._rest) > MAX_LINE_BYTES:
                raise LineError(f"line {self.count + 1} is longer than {MAX_LINE_BYTES} bytes")
            return
        lines = bytes(self._rest).split(self._delimiter)
        self._rest = bytearray(lines.pop() if chunk else b"")
        for line in lines:
            self.count += 1
            if line:  # an empty line is no record, as for kcat
                yield self.count, line


def record_of(
    line: bytes,
    *,
    key_separator: bytes | None = None,
    key: bytes | None = None,
    headers: Headers = (),
    partition: int | None = None,
    null: bytes | None = None,
) -> JsonRecord:
    """Return a line as a record.

    Args:
        key_separator: divides key and value; without one in the line there is no key.
        key: that of each record without one of its own.
        null: a key or value that is this text is null.
    """
    value: bytes | None = line
    own: bytes | None = None
    if key_separator is not None:
        before, found, after = line.partition(key_separator)
        if found:
            own, value = before, after
    if null is not None:
        own, value = (None if each == null else each for each in (own, value))
    return JsonRecord(key if own is None else own, value, headers, None, partition)


def record_of_json(line: bytes, *, headers: Headers = (), partition: int | None = None) -> JsonRecord:
    """Return a line of JSON as a record; partition and further headers are given.

    Raises:
        NotARecord: it is none.
    """
    try:
        given = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise NotARecord(f"it is not JSON: {getattr(error, 'msg', None) or 'it is not UTF-8, or too deep'}") from None
    if isinstance(given, dict):
        given.pop("topic", None)  # what was read may be written again, elsewhere
    record = parse_record(given)
    placed = record.partition if partition is None else partition
    return record._replace(partition=placed, headers=(*record.headers, *headers))
