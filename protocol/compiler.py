"""The common part of the decoder and encoder compilers: sizes of types, and the writing of Python source.

`message` describes how declarations become code; `decoder.py` and `encoder.py` do it.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from purgatorio.protocol.message import Fixed, StringType, StructType, Wire, WireType, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def smallest_bytes(wire_type: WireType[Any], version: int, flexible: bool) -> int:
    """Return the size of the smallest value of a type in a version, never less than one.

    It limits counts: `count * smallest_bytes` must not be larger than the remaining data.
    """
    match wire_type:
        case Fixed():
            return wire_type.size_bytes
        case StructType():
            fields = [f.wire for f in fields_of(cast(type, wire_type.cls)) if f.is_in(version) and f.wire.tag is None]
            inner = sum(_smallest_field_bytes(wire, version, flexible) for wire in fields)
            return max(1, inner + int(flexible))
        case _:
            return _prefix_bytes(wire_type, flexible)


def _smallest_field_bytes(wire: Wire, version: int, flexible: bool) -> int:
    if isinstance(wire.type, StructType) and wire.null_since <= version:
        return 1
    return smallest_bytes(wire.type, version, flexible)


def _prefix_bytes(wire_type: WireType[Any], flexible: bool) -> int:
    if flexible:
        return 1
    return struct.calcsize(">" + length_code(wire_type, flexible))


def length_code(wire_type: WireType[Any], flexible: bool) -> str:
    """Return the format character of the length or count in front of a value, or of a varint's first byte."""
    if flexible:
        return "B"
    return "h" if isinstance(wire_type, StringType) else "i"


class SourceWriter:
    """Collects the lines of one generated function, and the objects that the function refers to by name.

    Attributes:
        title: the message's name and version.
        version: the version of the message.
        flexible: whether the version is flexible (KIP-482).
        names: the globals of the generated function.
    """

    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.title = title
        self.version = version
        self.flexible = flexible
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._serial = 0
        self._name_of: dict[int, str] = {}
        self._struct_of: dict[tuple[str, str], str] = {}

    def line(self, text: str) -> None:
        """Write one line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write `head:` and indent the lines that the `with` block writes."""
        self.line(head + ":")
        empty = len(self._lines)
        self._depth += 1
        yield
        if len(self._lines) == empty:
            self.line("pass")
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return a new, unique name."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def name(self, value: object, prefix: str) -> str:
        """Return the global name of an object, the same for the same object."""
        name = self._name_of.get(id(value))
        if name is None:
            name = self._name_of[id(value)] = self.fresh(prefix)
            self.names[name] = value
        return name

    def struct(self, codes: str, method: str) -> str:
        """Return the global name of a bound method of the precompiled Struct with these format characters."""
        name = self._struct_of.get((codes, method))
        if name is None:
            name = self._struct_of[codes, method] = self.fresh(f"{method}_")
            self.names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def literal(self, value: Any) -> str:
        """Return an expression for a constant: the value itself if it is a plain one, else a global name."""
        if value is None or isinstance(value, bool | int | str | float):
            return repr(value)
        return self.name(value, "default_")

    def compile(self, function: str) -> Callable[..., Any]:
        """Compile the written source and return one of its functions; tracebacks can show its source."""
        source = "\n".join(self._lines) + "\n"
        filename = f"<{function} {self.title}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec"), self.names)
        compiled: Callable[..., Any] = self.names[function]
        return compiled
