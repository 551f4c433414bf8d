"""What a test waits for: a wait that is dropped is told."""

from __future__ import annotations

import concurrent.futures

import pytest

from purgatorio.testing.waiting import Waiting


def _waiting() -> Waiting[int]:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.set_result(7)
    return Waiting(future, "a parked Produce")


def test_a_forgotten_wait_warns_at_the_line_that_forgot_it() -> None:
    """`kafka.until_parked(api="Produce")` alone waits for nothing."""
    with pytest.warns(RuntimeWarning, match=r"a parked Produce: this was never waited for; add \.wait\(\)") as told:
        _waiting()
    assert told[0].filename == __file__


def test_a_wait_warns_not() -> None:
    assert _waiting().wait() == 7


async def test_an_awaited_one_warns_not() -> None:
    assert await _waiting() == 7
