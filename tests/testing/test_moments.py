"""The report is made when an exception passes the test's code, and belongs to that exception."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
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


def test_a_report_belongs_to_the_raising_not_to_an_exception_that_is_raised_often() -> None:
    """A mock raises one exception again and again; only the last time is the failure."""
    count, error = itertools.count(), ValueError("of a mock")

    def raises() -> None:
        raise error

    def fails_at_last() -> None:
        with contextlib.suppress(ValueError):
            raises()
        with client():
            raises()

    assert text_of(watched(fails_at_last, lambda: f"{next(count)} {state}")) == "1 open"
    assert text_of(watched(fails_at_last, lambda: f"{next(count)} {state}")) == "3 open"


def test_an_exception_that_its_handler_raises_on_keeps_its_report() -> None:
    def raises_on() -> None:
        try:
            with client():
                raise ValueError("body")
        except ValueError as error:
            assert state == "closed"
            raise error

    assert text_of(watched(raises_on)) == "open"


def test_a_cause_that_was_handled_before_does_not_count() -> None:
    def gives_up() -> None:
        last = None
        for _ in range(2):
            try:
                with client():
                    raise ValueError("a try")
            except ValueError as error:
                last = error
        raise KeyError("gave up") from last

    def translates() -> None:
        try:
            with client():
                raise ValueError("body")
        except ValueError as error:
            raise KeyError("translated") from error

    assert text_of(watched(gives_up)) == "closed"
    assert text_of(watched(translates)) == "open"


def test_each_of_two_watches_has_its_own_report() -> None:
    with Moments(lambda: "outer", __file__, functions_of(fails)) as outer:
        inner, error = watched(fails, lambda: "inner")
    assert (outer.text_of(error), inner.text_of(error)) == ("outer", "inner")


def test_threads_that_fail_at_once_have_their_own_reports() -> None:
    met = threading.Barrier(2)

    def report() -> str:
        met.wait(10)
        return threading.current_thread().name

    found: dict[str, str] = {}

    def fails_here() -> None:
        try:
            raise ValueError("body")
        except ValueError as error:
            found[threading.current_thread().name] = moments.text_of(error)

    with Moments(report, __file__, [fails_here]) as moments:  # type: ignore[list-item]
        threads = [threading.Thread(target=fails_here, name=name) for name in ("one", "two")]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert found == {"one": "one", "two": "two"}


def test_a_cluster_that_gives_no_report_is_not_asked_again() -> None:
    asked = itertools.count()

    def hangs() -> str:
        next(asked)
        raise TimeoutError("it is busy")

    def expects_many() -> None:
        for _ in range(100):
            with contextlib.suppress(ValueError):
                raise ValueError
        raise KeyError("failure")

    watched(expects_many, hangs)
    assert next(asked) == 1
    found, error = watched(fails, hangs)
    assert found.text_of(error) == "no report: it is busy"
    assert next(asked) == 3


def test_ctrl_c_asks_for_no_report() -> None:
    asked = itertools.count()

    def is_interrupted() -> None:
        raise KeyboardInterrupt

    watched(is_interrupted, lambda: str(next(asked)))
    assert next(asked) == 0


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


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 669")
def test_a_test_may_free_the_ids_of_all_tools() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    with Moments(str, __file__):
        for each in room.TOOL_IDS:
            if monitoring.get_tool(each) == room.NAME:
                monitoring.free_tool_id(each)
    assert text_of(watched(fails)) == "open"
