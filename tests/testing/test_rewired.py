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

from purgatorio.testing.rewired import calling

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
        (nested, ["left inner 0", "ValueError(1)", "left inner 1", "left outer"]),
        (handles, ["KeyError('k')", "finally"]),
        (without_a_handler, ["ZeroDivisionError('integer division or modulo by zero')"]),
        (times_out, ["CancelledError()", "TimeoutError()", "left client"]),
        (long_function(), ["ValueError('long')", "left long"]),
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
        assert seen == ["GeneratorExit()", "left generator"]
        assert list(generator()) == [1, 2]


def test_code_that_cannot_be_changed_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatorio.testing.rewired._kept", {})
    monkeypatch.setattr("dis.opmap", {})
    with calling([nested], note):  # type: ignore[list-item]
        assert run(nested)[0] == "ValueError(1)"
    assert "ValueError(1)" not in seen


class Interruption(BaseException):
    """As Ctrl-C, or the signal of a time limit, raises one in the listener."""


def test_an_interruption_of_the_listener_leaves_no_block_out() -> None:
    def interrupts(error: BaseException) -> None:
        if isinstance(error, ValueError):
            raise Interruption

    with calling([nested], interrupts), pytest.raises(Interruption) as found:  # type: ignore[list-item]
        nested()
    assert seen == ["left inner 0", "left inner 1", "left outer"]
    lines = [each.lineno for each in traceback.extract_tb(found.tb) if each.name == "nested"]
    assert lines == [nested.__code__.co_firstlineno + 6]
    assert isinstance(found.value.__context__, ValueError)


def deep() -> None:
    """Ends at the end of the stack."""
    try:
        deep()
    finally:
        seen.append("left")


def test_the_end_of_the_stack_leaves_no_block_out_and_has_lines() -> None:
    with calling([deep], note), pytest.raises(RecursionError) as found:  # type: ignore[list-item]
        deep()
    assert seen.count("left") > sys.getrecursionlimit() // 2
    assert None not in [each.lineno for each in traceback.extract_tb(found.tb)]
    assert "line None" not in "".join(traceback.format_tb(found.tb))


def test_a_listener_that_fails_changes_nothing() -> None:
    def fails(error: BaseException) -> None:
        raise OSError

    plain = run(nested)
    with calling([nested], fails):  # type: ignore[list-item]
        assert run(nested) == plain


def test_watches_that_end_in_any_order_leave_a_function_as_it_was() -> None:
    before = nested.__code__
    first, second = calling([nested], note), calling([nested, nested], note)  # type: ignore[list-item]
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert run(nested)[0] == "ValueError(1)"
    assert "ValueError(1)" in seen
    second.__exit__(None, None, None)
    assert nested.__code__ is before


def test_code_that_another_one_gave_to_a_function_stays() -> None:
    def other() -> None:
        pass

    def changed() -> None:
        raise AssertionError

    with calling([changed], note):  # type: ignore[list-item]
        changed.__code__ = other.__code__
    assert changed() is None  # type: ignore[func-returns-value]


def test_equal_code_of_other_lines_keeps_its_own() -> None:
    """A file that is loaded again may have moved a line within a function."""
    for blank, line in (("", 3), ("\n", 4)):
        names: dict[str, Any] = {}
        exec(compile(f"def it(name=1):\n    name = 2\n{blank}    raise ValueError(name)", "same.py", "exec"), names)
        with calling([names["it"]], note), pytest.raises(ValueError, match="2") as found:
            names["it"]()
        assert found.traceback[-1].lineno == line - 1


def test_tracers_see_the_same_lines() -> None:
    """As those of coverage.py and debuggers."""

    def traced() -> list[tuple[str, int | None]]:
        seen_lines: list[tuple[str, int | None]] = []

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code.co_name in ("nested", "handles", "without_a_handler"):
                seen_lines.append((event, frame.f_lineno))
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            for function in (nested, handles, without_a_handler):
                with suppress(ValueError, ZeroDivisionError):
                    function()
        finally:
            sys.settrace(before)
        return seen_lines

    plain = traced()
    with calling([nested, handles, without_a_handler], note):  # type: ignore[list-item]
        assert traced() == plain
