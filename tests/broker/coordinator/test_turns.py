"""Long answers in steps: short ones are made at once, long ones let others pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from purgatorio.broker.coordinator.turns import Listings, in_turns


def listing(name: str, steps: int, done: list[str]) -> Iterator[None]:
    for _ in range(steps - 1):
        yield
    done.append(name)


def test_a_listing_of_one_step_is_made_at_once() -> None:
    done: list[str] = []
    Listings(lambda: done.append("woken")).begin(listing("short", 1, done))
    assert done == ["short"]


def test_a_long_listing_is_made_in_steps_and_holds_up_no_shorter_one() -> None:
    done: list[str] = []
    listings = Listings(lambda: done.append("woken"))
    listings.begin(listing("long", 4, done))
    listings.begin(listing("shorter", 2, done))
    assert done == ["woken", "woken"]
    steps = listings.steps()
    next(steps)
    next(steps)
    assert done[2:] == ["shorter"]
    assert len(list(steps)) == 2
    assert done[2:] == ["shorter", "long"]


async def test_steps_are_taken_in_turns_of_the_loop_whenever_there_is_work() -> None:
    has_work, done = asyncio.Event(), list[str]()
    listings = Listings(has_work.set)
    working = asyncio.create_task(in_turns(has_work, listings.steps))
    for name in ("first", "second"):
        listings.begin(listing(name, 3, done))
        assert name not in done
        for _ in range(10):
            await asyncio.sleep(0)
        assert done[-1] == name
    working.cancel()
