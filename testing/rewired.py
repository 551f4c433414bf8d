"""Functions of Python 3.11 that say which exceptions pass them; newer interpreters have `sys.monitoring` for that.

A function's code gets a longer end. Its exception table leads each exception there first; the addition calls the
listener with it, and goes on to the handler that the exception had before, or lets it leave the function. Without an
exception not one more instruction is executed. Bytecode of 3.11 does not change any more.

The listener may be interrupted: by Ctrl-C, by the signal of a time limit, by the end of the stack. That exception goes
to the same handler, so that no ``finally`` is left out. Each line has its own addition, which belongs to that line:
tracebacks, debuggers and coverage see no other lines than before.
"""

from __future__ import annotations

import contextlib
import dis
import itertools
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, TracebackType
from typing import Any, Final

from purgatorio.late import dataclass

Listener = Callable[[BaseException], None]
MAX_MADE: Final = 1_000
"""How many functions' code is kept."""
_STACK: Final = 3
"""The addition puts NULL, the listener and the exception on the stack."""


def _pass_on(error: BaseException) -> BaseException:
    """Call the listeners that are there now: the code that calls this is made once, and used again.

    Returns:
        The exception with which the function goes on: another one if the listeners were interrupted.
    """
    try:
        for each in _listeners:
            each(error)
    except Exception:  # the end of the stack, for example; the function's own exception matters more
        return error
    except BaseException as interruption:
        here = error.__traceback__
        if here is not None:  # as if the function's line itself had been interrupted
            below = interruption.__traceback__
            interruption.with_traceback(TracebackType(below, here.tb_frame, here.tb_lasti, here.tb_lineno))
        if interruption.__context__ is None:
            interruption.__context__ = error
        return interruption
    return error


@dataclass
class _Swapped:
    """A function whose code is another one for now.

    Attributes:
        before: its own code.
        made: the code that calls listeners.
        count: how many callers want that.
    """

    before: CodeType
    made: CodeType
    count: int = 0


@contextlib.contextmanager
def calling(functions: Sequence[FunctionType], listener: Listener) -> Iterator[None]:
    """Have functions call a listener with each exception that is raised in them or passes them, before its handler.

    The listener must not raise. Calls that run already stay as they are. Code that cannot be changed stays so, too.
    """
    _listeners.append(listener)
    for each in functions:
        _swap(each)
    try:
        yield
    finally:
        for each in functions:
            _swap_back(each)
        _listeners.remove(listener)


def _swap(function: FunctionType) -> None:
    swapped = _swaps.get(function)
    if swapped is None:
        code = function.__code__
        swapped = _swaps[function] = _Swapped(code, _made(code))
        function.__code__ = swapped.made
    swapped.count += 1


def _swap_back(function: FunctionType) -> None:
    """Give a function its own code back after the last caller, unless another one gave it code meanwhile."""
    swapped = _swaps[function]
    swapped.count -= 1
    if not swapped.count:
        del _swaps[function]
        if function.__code__ is swapped.made:
            function.__code__ = swapped.before


def _made(code: CodeType) -> CodeType:
    """Return the code of a function: kept by identity, for equal code may be of other lines, or of another file."""
    kept = _kept.get(id(code))
    if kept is None:
        try:
            made = rewired(code, _pass_on)
        except Exception:  # of another interpreter, for example
            made = code
        while len(_kept) >= MAX_MADE:
            del _kept[next(iter(_kept))]
        kept = _kept[id(code)] = code, made
    return kept[1]


def rewired(code: CodeType, listener: Callable[[BaseException], BaseException]) -> CodeType:
    """Return code that calls a listener with each exception, before that reaches its handler or leaves the code.

    It goes on with the exception that the listener returns.
    """
    entries = _with_gaps(code, dis._parse_exception_table(code))  # type: ignore[attr-defined]
    consts = (*code.co_consts, listener)
    added, table, end_of_table = bytearray(), bytearray(), bytearray()
    lines = [each[0] for each in code.co_positions()]
    line_before = next((each for each in reversed(lines) if each is not None), code.co_firstlineno)
    ends_of_loops = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RERAISE":  # what was seen
            lines[instruction.offset // 2] = None
        elif instruction.opname == "END_ASYNC_FOR":  # it raises on what is no end of its loop
            ends_of_loops.add(instruction.offset)
    places = bytearray()
    begins: dict[Any, int] = {}
    for start, end, target, depth, lasti in entries:
        at = start
        for line, units in itertools.groupby(lines[start // 2 : end // 2]):
            to = at + 2 * len(list(units))
            handler = target, depth, lasti, line
            if line is None or target in ends_of_loops:
                table += _entry(at, to, target, depth, lasti) if target >= 0 else b""
                at = to
                continue
            if handler not in begins:
                begin = begins[handler] = len(code.co_code) + len(added)
                addition = _addition(begin, target, len(consts) - 1)
                added += addition
                places += _places(len(addition) // 2, line - line_before)
                line_before = line
                if target >= 0:
                    end_of_table += _entry(begin, begin + len(addition), target, depth, lasti)
            table += _entry(at, to, begins[handler], depth, lasti)
            at = to
    return code.replace(
        co_code=code.co_code + bytes(added),
        co_consts=consts,
        co_exceptiontable=bytes(table + end_of_table),
        co_linetable=code.co_linetable + bytes(places),
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
        + _instruction("SWAP", 2)
        + _instruction("POP_TOP", 0)
    )
    if target < 0:
        return made + _instruction("RERAISE", 1)
    length = 1
    while True:  # the jump is as long as its way is, which it is part of
        jump = _instruction("JUMP_BACKWARD_NO_INTERRUPT", (at + len(made) + 2 * length - target) // 2)
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


def _places(count: int, line_delta: int) -> bytes:
    """Return the places of so many instructions: one line, counted from the line before, without columns."""
    made = bytearray()
    while count > 0:
        length = min(count, 8)
        made.append(128 | _LINE_ONLY << 3 | length - 1)
        number = abs(line_delta) << 1 | (line_delta < 0)
        while number >= 64:
            made.append(64 | number & 63)
            number >>= 6
        made.append(number)
        count, line_delta = count - length, 0
    return bytes(made)


def _entry(start: int, end: int, target: int, depth: int, lasti: bool) -> bytes:
    """Return an entry of an exception table: four numbers of six bits a byte; the first byte of all has a mark."""
    made = bytearray()
    for number in (start // 2, (end - start) // 2, target // 2, depth << 1 | lasti):
        shifts = [shift for shift in (24, 18, 12, 6) if number >> shift]
        made += bytes([*(64 | number >> shift & 63 for shift in shifts), number & 63])
    made[0] |= 128
    return bytes(made)


_LINE_ONLY: Final = 13
"""The kind of entries of the table of places that have a line, and no columns."""
_listeners: Final[list[Listener]] = []
_swaps: Final[dict[FunctionType, _Swapped]] = {}
_kept: Final[dict[int, tuple[CodeType, CodeType]]] = {}
"""By the id of a code, itself and what was made of it."""
