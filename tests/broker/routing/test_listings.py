"""Long answers in steps: short ones are made at once, long ones let others pass."""

from __future__ import annotations

from purgatorio.broker.routing.request import Session
from purgatorio.broker.time.long_work import SLICE, Steps
from tests.broker.time.by_hand import HandListings


def listing(name: str, steps: int, done: list[str]) -> Steps:
    for _ in range(steps - 1):
        yield SLICE
    done.append(name)


def test_a_listing_of_one_step_is_made_at_once() -> None:
    done: list[str] = []
    HandListings().begin(listing("short", 1, done))
    assert done == ["short"]


def test_a_long_listing_is_made_in_steps_and_holds_up_no_shorter_one() -> None:
    done: list[str] = []
    listings = HandListings()
    listings.begin(listing("long", 4, done))
    listings.begin(listing("shorter", 2, done))
    assert done == []
    assert listings.step()
    assert done == ["shorter"]
    assert len(list(listings.steps())) == 2
    assert done == ["shorter", "long"]


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
    listings = HandListings()
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
    listings = HandListings()
    for each in (lost, kept):
        listings.begin(listing(each.connection_id, 3, done), each)
    lost.lost()
    assert len(list(listings.steps())) == 2
    assert done == ["c"]


def test_what_a_lost_connection_counts_on_is_done_at_once() -> None:
    """As records that were sent with acks=0: the client waits for no answer."""
    done: list[str] = []
    lost = session(Channel())
    listings = HandListings()
    listings.begin(listing("records", 5, done), lost, finishes=True)
    lost.lost()
    assert not listings.step()
    assert done == ["records"]
