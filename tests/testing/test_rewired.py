"""Functions of Python 3.11 that say which exceptions pass them."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, FunctionType
from typing import Any

import pytest

from purgatorio.testing.rewired import _made, calling

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer interpreters watch a file")

seen: list[str] = []


@pytest.fixture(autouse=True)
def _empty() -> None:
    seen.clear()


def note(error: BaseException) -> None:
    """The listener."""
    if not seen or seen[-1] != repr(error):
        seen.append(repr(error))


@contextmanager
def block(name: str) -> Iterator[None]:
    """A ``with`` block whose end is seen."""
    try:
        yield
    finally:
        seen.append(f"left {name}")


def nested() -> None:
    """Raises in two blocks."""
    with block("outer"):
        for number in range(3):
            with block(f"inner {number}"):
                if number == 1:
                    raise ValueError(number)


def handles() -> str:
    """Handles what it raises, and returns."""
    try:
        raise KeyError("k")
    except KeyError:
        return "handled"
    finally:
        seen.append("finally")


def without_a_handler() -> Any:
    """Has no handler at all."""
    return [1 // number for number in (1, 0)]


async def times_out() -> None:
    """Is cancelled, which its block makes a TimeoutError of."""
    with block("client"):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()


def long_function() -> Callable[[], None]:
    """Return a function whose jumps and constants need prefixes."""
    lines = [f"        total += {1_000 + number}" for number in range(900)]
    source = "\n".join(
        ["def long():", "    total = 0", "    with block('long'):", *lines, "        raise ValueError('long')"]
    )
    names: dict[str, Any] = {"block": block}
    exec(source, names)
    made: Callable[[], None] = names["long"]
    return made


def run(function: Callable[[], Any]) -> tuple[str, list[tuple[int | None, str]]]:
    """Call a function, and return what came out, and by which lines."""
    try:
        found = function()
        return repr(asyncio.run(found) if asyncio.iscoroutine(found) else found), []
    except Exception as error:
        return repr(error), [(each.lineno, each.name) for each in traceback.extract_tb(error.__traceback__)[1:]]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (nested, ["left inner 0", "ValueError(1)", "left inner 1", "ValueError(1)", "left outer", "ValueError(1)"]),
        (handles, ["KeyError('k')", "finally"]),
        (without_a_handler, ["ZeroDivisionError('integer division or modulo by zero')"]),
        (times_out, ["CancelledError()", "TimeoutError()", "left client", "TimeoutError()"]),
        (long_function(), ["ValueError('long')", "left long", "ValueError('long')"]),
    ],
    ids=["nested", "handles", "without a handler", "times out", "long"],
)
def test_each_exception_is_seen_before_its_blocks_end_and_all_else_stays(
    function: FunctionType, wanted: list[str]
) -> None:
    plain = run(function)
    seen.clear()
    before = function.__code__
    with calling([function], note):
        assert run(function) == plain
    assert seen == wanted
    assert function.__code__ is before


def generator() -> Iterator[int]:
    """Yields in a block."""
    with block("generator"):
        yield 1
        yield 2


def test_a_generator_that_is_closed_ends_as_before() -> None:
    with calling([generator], note):  # type: ignore[list-item]
        begun = generator()
        assert next(begun) == 1
        begun.close()  # type: ignore[attr-defined]
        assert seen == ["GeneratorExit()", "left generator", "GeneratorExit()"]
        assert list(generator()) == [1, 2]


def test_code_that_cannot_be_changed_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _made.cache_clear()
    monkeypatch.setattr("dis.opmap", {})
    with calling([nested], note):  # type: ignore[list-item]
        assert run(nested)[0] == "ValueError(1)"
    assert "ValueError(1)" not in seen
    _made.cache_clear()


def test_tracers_see_the_same_lines() -> None:
    """As those of coverage.py and debuggers."""

    def traced() -> list[tuple[str, int | None]]:
        seen_lines: list[tuple[str, int | None]] = []

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code.co_name in ("nested", "handles"):
                seen_lines.append((event, frame.f_lineno))
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            for function in (nested, handles):
                with suppress(ValueError):
                    function()
        finally:
            sys.settrace(before)
        return seen_lines

    plain = traced()
    with calling([nested, handles], note):  # type: ignore[list-item]
        assert traced() == plain
