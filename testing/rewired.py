"""Functions of Python 3.11 that say which exceptions pass them; newer interpreters have `sys.monitoring` for that.

A function's code gets a longer end. Its exception table leads each exception there first; the addition calls the
listener with it, and goes on to the handler that the exception had before, or lets it leave the function. Without an
exception not one more instruction is executed. Bytecode of 3.11 does not change any more.
"""

from __future__ import annotations

import contextlib
import dis
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

Listener = Callable[[BaseException], None]
MAX_MADE: Final = 1_000
"""How many functions' code is kept."""
_STACK: Final = 3
"""The addition puts NULL, the listener and the exception on the stack."""


class _Listener:
    """Calls the listeners that are there now: the code that has it is made once, and used again."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []

    def __call__(self, error: BaseException) -> None:
        for each in self.listeners:
            each(error)


@contextlib.contextmanager
def calling(functions: Sequence[FunctionType], listener: Listener) -> Iterator[None]:
    """Have functions call a listener with each exception that is raised in them or passes them, once for each handler.

    The listener must not raise. Calls that run already stay as they are. Code that cannot be changed stays so, too.
    """
    _all.listeners.append(listener)
    before = [(each, each.__code__) for each in functions]
    for function, code in before:
        if _all not in code.co_consts:
            function.__code__ = _made(code, code.co_filename)
    try:
        yield
    finally:
        for function, code in before:
            function.__code__ = code
        _all.listeners.remove(listener)


@lru_cache(MAX_MADE)
def _made(code: CodeType, file: str) -> CodeType:
    """Return the code of a function of a file: code of two files may be equal."""
    try:
        return rewired(code, _all)
    except Exception:  # of another interpreter, for example
        return code


def rewired(code: CodeType, listener: Listener) -> CodeType:
    """Return code that calls a listener with each exception, before that reaches its handler or leaves the code."""
    entries = _with_gaps(code, dis._parse_exception_table(code))  # type: ignore[attr-defined]
    consts = (*code.co_consts, listener)
    added, table = bytearray(), bytearray()
    begins: dict[Any, int] = {}
    for start, end, target, depth, lasti in entries:
        handler = target, depth, lasti
        if handler not in begins:
            begins[handler] = len(code.co_code) + len(added)
            added += _addition(begins[handler], target, len(consts) - 1)
        table += _entry(start, end, begins[handler], depth, lasti)
    return code.replace(
        co_code=code.co_code + bytes(added),
        co_consts=consts,
        co_exceptiontable=bytes(table),
        co_linetable=code.co_linetable + _without_lines(len(added) // 2),
        co_stacksize=code.co_stacksize + _STACK + 2,
    )


def _with_gaps(code: CodeType, entries: list[Any]) -> Iterator[tuple[int, int, int, int, bool]]:
    """Yield the exception table, and entries that lead nowhere (-1) for the instructions that have no handler."""
    at = next(each.offset + 2 for each in dis.get_instructions(code) if each.opname == "RESUME")
    for each in sorted(entries, key=lambda each: int(each.start)):
        if at < each.start:
            yield at, each.start, -1, 0, True
        at = max(at, each.end)
        yield each.start, each.end, each.target, each.depth, each.lasti
    if at < len(code.co_code):
        yield at, len(code.co_code), -1, 0, True


def _addition(at: int, target: int, listener: int) -> bytes:
    """Return instructions that call the listener with the exception on the stack, and go to the handler, if any."""
    made = (
        _instruction("PUSH_NULL", 0)
        + _instruction("LOAD_CONST", listener)
        + _instruction("COPY", _STACK)
        + _instruction("PRECALL", 1)
        + _instruction("CALL", 1)
        + _instruction("POP_TOP", 0)
    )
    if target < 0:
        return made + _instruction("RERAISE", 1)
    length = 1
    while True:  # the jump is as long as its way is, which it is part of
        jump = _instruction("JUMP_BACKWARD", (at + len(made) + 2 * length - target) // 2)
        if len(jump) == 2 * length:
            return made + jump
        length += 1


def _instruction(name: str, argument: int) -> bytes:
    """Return an instruction with its prefixes and its cache."""
    prefixes = [
        byte for shift in (24, 16, 8) if argument >> shift for byte in (dis.EXTENDED_ARG, argument >> shift & 255)
    ]
    caches: int = dis._inline_cache_entries[dis.opmap[name]]  # type: ignore[attr-defined]
    return bytes([*prefixes, dis.opmap[name], argument & 255]) + bytes(2 * caches)


def _without_lines(count: int) -> bytes:
    """Return entries of a line table for so many instructions of no line, of which tracers hear nothing.

    An entry is for one to eight of them.
    """
    return bytes([0xF8 | min(8, count - done) - 1 for done in range(0, count, 8)])


def _entry(start: int, end: int, target: int, depth: int, lasti: bool) -> bytes:
    """Return an entry of an exception table: four numbers of six bits a byte; the first byte of all has a mark."""
    made = bytearray()
    for number in (start // 2, (end - start) // 2, target // 2, depth << 1 | lasti):
        shifts = [shift for shift in (24, 18, 12, 6) if number >> shift]
        made += bytes([*(64 | number >> shift & 63 for shift in shifts), number & 63])
    made[0] |= 128
    return bytes(made)


_all: Final = _Listener()
