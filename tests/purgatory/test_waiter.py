"""`Purgatory.wait`: a task that waits for an event, told apart from its deadline, its cancellation and a shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from purgatorio.purgatory import WaitAborted
from tests.compiled import checks_types_itself


@pytest.fixture(autouse=True)
def _nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No wait logs anything, whatever way it ends; asyncio logs unretrieved exceptions when it collects garbage."""
    caplog.set_level(logging.DEBUG)
    yield
    gc.collect()
    records = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    assert [record.getMessage() for record in records if record.levelno > logging.DEBUG] == []


@pytest.fixture
def park(house: Any) -> Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, asyncio.Task[Any]]]:
    """Starts a wait as a task, and returns when the wait is parked."""

    async def start(wait: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        before = house.purgatory.num_delayed
        task = asyncio.create_task(wait)
        await asyncio.sleep(0)
        assert house.purgatory.num_delayed == before + 1
        return task

    return start


async def test_an_event_on_any_of_the_keys_ends_a_wait(house: Any, park: Any) -> None:
    for event in ("a", ("b", 1)):
        task = await park(house.purgatory.wait("a", ("b", 1), timeout_ms=100))
        house.purgatory.check_and_complete("other")
        assert not task.done()
        assert house.purgatory.check_and_complete(event) == 1
        assert await task is None
        house.assert_empty()


async def test_an_event_before_the_wait_does_not_end_it(house: Any, park: Any) -> None:
    house.purgatory.check_and_complete("a")
    task = await park(house.purgatory.wait("a", timeout_ms=100))
    house.purgatory.check_and_complete("a")
    await task


async def test_one_event_ends_all_waits_on_its_key_oldest_first(house: Any, park: Any) -> None:
    order: list[int] = []

    async def wait(number: int) -> None:
        await house.purgatory.wait("a", timeout_ms=100)
        order.append(number)

    tasks = [await park(wait(number)) for number in range(3)]
    assert house.purgatory.check_and_complete("a") == 3
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]


async def test_the_deadline_raises_timeout_error_and_no_earlier(house: Any, park: Any) -> None:
    task = await park(house.purgatory.wait("a", timeout_ms=100))
    house.advance(99)
    assert house.purgatory.num_delayed == 1
    house.advance(1)
    with pytest.raises(TimeoutError, match=r"Test: no event yet on \('a',\) after 100 ms"):
        await task
    house.assert_empty()
    assert [finished.outcome for finished in house.finished] == ["expired"]


@pytest.mark.parametrize("timeout_ms", [0, -5])
async def test_a_wait_without_time_checks_its_condition_once_and_raises(house: Any, timeout_ms: int) -> None:
    with pytest.raises(TimeoutError):
        await house.purgatory.wait("a", timeout_ms=timeout_ms)
    assert await house.purgatory.wait("a", timeout_ms=timeout_ms, until=lambda: "holds") == "holds"
    house.assert_empty()


async def test_a_condition_that_holds_already_ends_the_wait_at_once_and_its_value_is_returned(house: Any) -> None:
    jobs = ["job"]
    assert await house.purgatory.wait("a", timeout_ms=100, until=lambda: jobs) is jobs
    assert house.finished == []
    house.assert_empty()


async def test_events_check_the_condition_until_it_holds(house: Any, park: Any) -> None:
    jobs: list[str] = []
    task = await park(house.purgatory.wait("a", timeout_ms=100, until=lambda: jobs))
    assert house.purgatory.check_and_complete("a") == 0
    jobs.append("job")
    assert house.purgatory.check_and_complete("a") == 1
    assert await task == ["job"]


async def test_the_condition_still_holds_when_the_wait_returns_although_another_task_was_faster(
    house: Any, park: Any
) -> None:
    jobs: deque[str] = deque()
    taken: list[tuple[int, str]] = []

    async def work(number: int) -> None:
        await house.purgatory.wait("jobs", timeout_ms=100, until=lambda: jobs)
        taken.append((number, jobs.popleft()))

    tasks = [await park(work(number)) for number in range(2)]
    jobs.append("first")
    assert house.purgatory.check_and_complete("jobs") == 2, "it holds for both"
    await asyncio.sleep(0)
    assert (taken, house.purgatory.num_delayed) == ([(0, "first")], 1)
    house.advance(60)
    jobs.append("second")
    house.purgatory.check_and_complete("jobs")
    await asyncio.gather(*tasks)
    assert taken == [(0, "first"), (1, "second")]


async def test_a_wait_that_goes_on_keeps_its_deadline(house: Any, park: Any) -> None:
    holds = [True]
    task = await park(house.purgatory.wait("a", timeout_ms=100, until=lambda: not holds[0]))
    house.advance(60)
    holds[0] = False
    house.purgatory.check_and_complete("a")
    holds[0] = True
    await asyncio.sleep(0)
    assert not task.done()
    house.advance(39)
    assert house.purgatory.num_delayed == 1
    house.advance(1)
    with pytest.raises(TimeoutError, match=r"the condition does not hold yet on .* after 100 ms"):
        await task


async def test_an_exception_of_the_condition_is_raised_in_the_waiting_task(house: Any, park: Any) -> None:
    state: dict[str, bool] = {"ready": False}
    task = await park(house.purgatory.wait("a", timeout_ms=100, until=lambda: state["ready"]))
    other = await park(house.purgatory.wait("a", timeout_ms=100))
    state.clear()
    house.purgatory.check_and_complete("a")
    with pytest.raises(KeyError, match="ready"):
        await task
    await other
    with pytest.raises(KeyError, match="ready"):
        await house.purgatory.wait("a", timeout_ms=100, until=lambda: state["ready"])
    house.assert_empty()


async def test_a_cancelled_task_leaves_the_purgatory(house: Any, park: Any) -> None:
    task = await park(house.purgatory.wait("a", "b", timeout_ms=100))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    house.assert_empty()
    assert [finished.outcome for finished in house.finished] == ["cancelled"]


@pytest.mark.parametrize("end", ["event", "deadline", "shutdown", "cancel_for_key", "failing condition"])
@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_cancellation_in_the_same_turn_as_the_end_of_the_wait_logs_nothing(
    house: Any, park: Any, end: str, cancelled_first: bool
) -> None:
    checks: list[int] = []

    def fail_at_the_event() -> bool:
        checks.append(1)
        return len(checks) > 2 and bool(1 // 0)

    until = {"until": fail_at_the_event} if end == "failing condition" else {}
    task = await park(house.purgatory.wait("a", timeout_ms=100, **until))
    if cancelled_first:
        task.cancel()
    if end == "deadline":
        house.advance(100)
    elif end == "shutdown":
        house.purgatory.shutdown()
    elif end == "cancel_for_key":
        house.purgatory.cancel_for_key("a")
    else:
        house.purgatory.check_and_complete("a")
    if not cancelled_first:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    house.assert_empty()


async def test_a_shutdown_aborts_waits_and_refuses_later_ones(house: Any, park: Any) -> None:
    task = await park(house.purgatory.wait("a", timeout_ms=100))
    house.purgatory.shutdown()
    with pytest.raises(WaitAborted, match="shutdown") as parked:
        await task
    with pytest.raises(WaitAborted, match="shutdown") as late:
        await house.purgatory.wait("a", timeout_ms=100)
    assert (parked.value.outcome, late.value.outcome) == ("shutdown", "shutdown")
    house.assert_empty()


async def test_cancelling_for_a_key_aborts_its_waits(house: Any, park: Any) -> None:
    task = await park(house.purgatory.wait("a", "b", timeout_ms=100))
    assert len(house.purgatory.cancel_for_key("a")) == 1
    with pytest.raises(WaitAborted, match="cancelled") as aborted:
        await task
    assert aborted.value.outcome == "cancelled"
    house.assert_empty()


async def test_an_operator_can_complete_or_expire_a_wait(house: Any, park: Any) -> None:
    task = await park(house.purgatory.wait("a", timeout_ms=100))
    (shown,) = house.purgatory.operations()
    assert [str(cause) for cause in shown.causes] == ["no event yet"]
    house.purgatory.find(shown.id).force_complete()
    assert await task is None
    task = await park(house.purgatory.wait("a", timeout_ms=100))
    (shown,) = house.purgatory.operations()
    house.purgatory.find(shown.id).expire()
    with pytest.raises(TimeoutError):
        await task


@pytest.mark.parametrize(
    ("keys", "timeout_ms", "error"),
    [
        (["a"], 1.5, TypeError),
        pytest.param(["a"], True, TypeError, marks=checks_types_itself),
        ([["unhashable"]], 5, TypeError),
        ([], 5, ValueError),
        (["a"], 2**63, ValueError),
    ],
)
async def test_bad_input_is_raised_also_if_the_condition_holds(
    house: Any, keys: list[Any], timeout_ms: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await house.purgatory.wait(*keys, timeout_ms=timeout_ms, until=lambda: True)
    house.assert_empty()
