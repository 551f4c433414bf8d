"""The report is made when an exception passes the test's code, and belongs to that exception."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from purgatorio.testing import moments as room
from purgatorio.testing.moments import Moments, functions_of

state = "open"


@contextlib.contextmanager
def client() -> Iterator[None]:
    """A client whose end changes what a report says."""
    global state
    state = "open"
    try:
        yield
    finally:
        state = "closed"


@contextlib.asynccontextmanager
async def async_client() -> AsyncIterator[None]:
    """The same for asyncio."""
    with client():
        try:
            yield
        finally:
            await asyncio.sleep(0)


def watched(test: Callable[[], Any], report: Callable[[], str] = lambda: state) -> tuple[Moments, BaseException]:
    """Run a failing test under a watch; return the watch and the failure."""
    with Moments(report, __file__, functions_of(test)) as found:
        try:
            result = test()
            if asyncio.iscoroutine(result):
                asyncio.run(result)
        except BaseException as error:
            return found, error
    raise AssertionError("the test passed")


def text_of(found: tuple[Moments, BaseException]) -> str | None:
    """Return the report of a failure."""
    moment = found[0].of(found[1])
    return moment and moment.text


class Odd:
    """Has all attributes, and none of them may be asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


odd = Mock()
odder = Odd()
"""Others of this file, among which the functions are looked for."""


def fails() -> None:
    """The usual failure."""
    with client():
        assert state == "something else"


async def fails_later() -> None:
    """Fails in an ``async with``."""
    async with async_client():
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)


async def is_cancelled_outside() -> None:
    """The block around the client makes a TimeoutError of what cancelled it."""
    async with asyncio.timeout(0.001), async_client():
        await asyncio.Event().wait()


async def fails_in_a_group() -> None:
    """A task group makes a group of what its body raised."""
    async with asyncio.TaskGroup(), async_client():
        raise ValueError("body")


@contextlib.contextmanager
def raises_at_its_end() -> Iterator[None]:
    """A client that cannot be closed."""
    try:
        yield
    finally:
        raise OSError("not closed")


def ends_badly() -> None:
    """The failure that pytest sees came while the client was closed."""
    with raises_at_its_end(), client():
        raise ValueError("body")


def fails_in_another() -> None:
    """Leaves the client to another function of the file."""
    fails()


@pytest.mark.parametrize(
    "test", [fails, fails_later, is_cancelled_outside, fails_in_a_group, ends_badly, fails_in_another]
)
def test_the_report_is_made_before_clients_are_closed(test: Callable[[], Any]) -> None:
    assert text_of(watched(test)) == "open"
    assert state == "closed"


def test_an_exception_that_was_handled_before_does_not_count() -> None:
    """Its cause is kept as the context of the failure; the test failed later."""

    def fails_after_another() -> None:
        try:
            with client():
                raise ValueError("first")
        except ValueError:
            assert state == "open"

    assert text_of(watched(fails_after_another)) == "closed"


def test_few_reports_are_made_of_exceptions_that_the_test_expects() -> None:
    count = itertools.count(1)

    def expects_many() -> None:
        for _ in range(100):
            with pytest.raises(ValueError, match="expected"):
                raise ValueError("expected")
        raise KeyError("failure")

    found = watched(expects_many, lambda: str(next(count)))
    assert next(count) == room.FIRST_TAKEN + 1
    assert text_of(found) is None


def test_the_failure_gets_its_report_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(0.0, room.PAUSE_SECONDS)
    monkeypatch.setattr(room, "monotonic", lambda: next(now))

    def expects_some() -> None:
        for _ in range(room.FIRST_TAKEN):
            with contextlib.suppress(ValueError):
                raise ValueError("expected")
        with client():
            raise KeyError("failure")

    assert text_of(watched(expects_some)) == "open"


def test_the_end_of_a_loop_is_no_failure() -> None:
    count = itertools.count()

    def goes_on() -> None:
        with contextlib.suppress(StopIteration):
            next(iter(()))
        raise KeyError("failure")

    assert text_of(watched(goes_on, lambda: str(next(count)))) == "0"


def test_a_report_that_cannot_be_made_changes_nothing() -> None:
    def broken() -> str:
        raise RuntimeError("the cluster is gone")

    found = watched(fails, broken)
    assert isinstance(found[1], AssertionError)
    assert text_of(found) is None


def test_exceptions_are_not_kept() -> None:
    class Kept(Exception):
        pass

    gone: list[weakref.ref[Kept]] = []

    def handles() -> None:
        try:
            raise Kept
        except Kept as error:
            gone.append(weakref.ref(error))
        assert gone[0]() is None
        raise KeyError("failure")

    assert isinstance(watched(handles)[1], KeyError)


def test_the_functions_own_code_is_found_behind_wrappers() -> None:
    class Tests:
        def method(self) -> None:
            pass

    assert functions_of(Tests().method) == [Tests.method]
    assert functions_of(contextlib.contextmanager(client.__wrapped__)) == [client.__wrapped__]  # type: ignore[attr-defined]
    assert functions_of(print) == []
    assert functions_of(odd) == functions_of(Odd()) == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 669")
def test_without_a_free_tool_there_is_no_report_and_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "TOOL_IDS", ())
    assert text_of(watched(fails)) is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 669")
def test_the_tool_is_free_again_at_the_end() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    with Moments(str, __file__), Moments(str, "other"):
        assert "purgatorio" in [monitoring.get_tool(each) for each in room.TOOL_IDS]
    assert "purgatorio" not in [monitoring.get_tool(each) for each in room.TOOL_IDS]
