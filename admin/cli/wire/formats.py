"""Records as text for people and pipes: format strings as kcat has them, and JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from purgatorio.admin.operations.record_json import shown_record
from purgatorio.protocol.record import Record

DEFAULT: Final = "%s\\n"
Write = Callable[[str, int, Record], bytes]
"""Returns the text of a record of a topic's partition."""

_TOKENS: Final = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\([nrt0\\])|([^%\\]+|\\|%)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_LENGTH_BYTES: Final = 4


class FormatError(ValueError):
    """The format string has something that is none of its tokens; the message says which."""


def format_of(text: str, null: str = "", *, for_terminal: bool = False) -> Write:
    r"""Return what writes records by a format string of kcat.

    ``%s`` value, ``%S`` its length, ``%R`` the same in 4 bytes, ``%k`` key, ``%K`` its length, ``%h`` headers, ``%t``
    topic, ``%p`` partition, ``%o`` offset, ``%T`` timestamp in ms, ``%%``; ``\n``, ``\r``, ``\t``, ``\\``, ``\xXX``.

    Args:
        null: stands for a key or value that is null; its length is -1.
        for_terminal: write no bytes that could control it.

    Raises:
        FormatError: there is another token.
    """
    shown = _Shown(null.encode(), _harmless if for_terminal else bytes)
    parts: list[bytes | Write] = []
    for percent, code, escape, plain in _TOKENS.findall(text):
        if percent == "%":
            parts.append(b"%")
        elif percent:
            if percent not in shown.tokens:
                raise FormatError(f"a format has no %{percent}, only %{' %'.join(shown.tokens)} and %%")
            parts.append(shown.tokens[percent])
        elif code:
            parts.append(bytes([int(code, 16)]))
        else:
            parts.append(_ESCAPES[escape] if escape else plain.encode())
    if all(isinstance(each, bytes) for each in parts):
        constant = b"".join(each for each in parts if isinstance(each, bytes))
        return lambda topic, partition, record: constant
    return lambda topic, partition, record: b"".join(
        [each if isinstance(each, bytes) else each(topic, partition, record) for each in parts]
    )


class _Shown:
    """What the tokens stand for."""

    def __init__(self, null: bytes, shown: Callable[[bytes], bytes]) -> None:
        self._null = null
        self._shown = shown
        self.tokens: dict[str, Write] = {
            "s": lambda _t, _p, record: self._bytes(record.value),
            "S": lambda _t, _p, record: b"%d" % _length(record.value),
            "R": lambda _t, _p, record: _length(record.value).to_bytes(_LENGTH_BYTES, "big", signed=True),
            "k": lambda _t, _p, record: self._bytes(record.key),
            "K": lambda _t, _p, record: b"%d" % _length(record.key),
            "h": lambda _t, _p, record: b",".join(
                b"%s=%s" % (shown(name.encode()), self._bytes(value)) for name, value in record.headers
            ),
            "t": lambda topic, _p, _r: topic.encode(),
            "p": lambda _t, partition, _r: b"%d" % partition,
            "o": lambda _t, _p, record: b"%d" % record.offset,
            "T": lambda _t, _p, record: b"%d" % record.timestamp_ms,
        }

    def _bytes(self, data: bytes | None) -> bytes:
        return self._null if data is None else self._shown(data)


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _harmless(data: bytes) -> bytes:
    """Return bytes as text without what controls a terminal."""
    if data.isascii() and (text := data.decode()).isprintable():
        return data
    text = data.decode(errors="replace")
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text).encode()


def json_line(topic: str, partition: int, record: Record, *, for_terminal: bool = False) -> bytes:
    """Return a record as one line of JSON, which `records produce --json` reads.

    Args:
        for_terminal: escape all characters that could control it; JSON itself escapes those below the blank alone.
    """
    shown = {"topic": topic, **shown_record(partition, record)}
    line = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    if for_terminal and not line.isprintable():
        line = json.dumps(shown, separators=(",", ":")).replace("\x7f", "\\u007f")
    return line.encode(errors="surrogatepass") + b"\n"
