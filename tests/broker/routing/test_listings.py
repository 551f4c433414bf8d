"""Long answers in steps: short ones are made at once, long ones let others pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from purgatorio.broker.routing.listings import Listings, in_turns, listings_soon
from purgatorio.broker.routing.request import Session
from tests.broker.conftest import Turns


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


class Channel:
    """Counts mutes."""

    def __init__(self) -> None:
        self.mutes = 0

    def mute(self) -> None:
        self.mutes += 1

    def unmute(self) -> None:
        self.mutes -= 1

    def throttle(self) -> None:
        raise AssertionError

    def unthrottle(self) -> None:
        raise AssertionError


def session(channel: Channel) -> Session:
    return Session(connection_id="c", listener="PLAINTEXT", host="192.0.2.7", peer="192.0.2.7:1", channel=channel)


def test_a_connection_is_muted_until_its_long_answer_is_made() -> None:
    done: list[str] = []
    channel = Channel()
    listings = Listings(lambda: None)
    listings.begin(listing("short", 1, done), session(channel))
    assert channel.mutes == 0
    listings.begin(listing("long", 3, done), session(channel))
    assert channel.mutes == 1
    assert listings.step()
    assert channel.mutes == 1
    assert not listings.step()
    assert (channel.mutes, done) == (0, ["short", "long"])


def test_what_a_lost_connection_asked_for_is_dropped() -> None:
    done: list[str] = []
    lost, kept = session(Channel()), session(Channel())
    listings = Listings(lambda: None)
    for each in (lost, kept):
        listings.begin(listing(each.connection_id, 3, done), each)
    lost.lost()
    assert len(list(listings.steps())) == 3
    assert done == ["c"]


def test_what_a_lost_connection_counts_on_is_done_at_once() -> None:
    """As records that were sent with acks=0: the client waits for no answer."""
    done: list[str] = []
    lost = session(Channel())
    listings = Listings(lambda: None)
    listings.begin(listing("records", 5, done), lost, finishes=True)
    lost.lost()
    assert not listings.step()
    assert done == ["records"]


def test_listings_of_a_server_take_one_step_in_each_turn(turns: Turns) -> None:
    done: list[str] = []
    listings = listings_soon(turns.call_soon)
    listings.begin(listing("a", 3, done))
    listings.begin(listing("b", 2, done))
    for expected in ([], ["b"], ["b", "a"]):
        turns.turn()
        assert done == expected
    turns.turn()
    listings.begin(listing("c", 2, done))
    turns.run()
    assert done == ["b", "a", "c"]
