"""Java's property files, as Kafka's server.properties is one: ``name=value``, ``name: value`` or ``name value`` a line.

A line that begins with ``#`` or ``!`` is a comment, and one that ends in a backslash goes on in the next one. Source:
the documentation of java.util.Properties.
"""

from __future__ import annotations

import re
from typing import Final

_ENTRY: Final = re.compile(r"((?:[^\\=:\s]|\\.)*)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of a file, the last one of a name."""
    found: dict[str, str] = {}
    before = ""
    for line in _LINE_END.split(text):
        line = before + line.lstrip(" \t\f")
        before = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            before = line[:-1]
            continue
        _add(line, found)
    if before:
        _add(before, found)
    return found


def _add(line: str, found: dict[str, str]) -> None:
    entry = _ENTRY.fullmatch(line)
    assert entry is not None, "a name may be empty, and anything may follow it"
    name, value = (_ESCAPE.sub(_character, each) for each in entry.groups())
    found[name] = value


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)
