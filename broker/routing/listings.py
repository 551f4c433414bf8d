"""Work that takes long, in steps between which the event loop does its other work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from purgatorio.broker.routing.request import NO_CHANNEL, Session

_DONE: Final = object()


async def in_turns(has_work: asyncio.Event, steps: Callable[[], Iterator[None]]) -> None:
    """Take the steps whenever there is work, and let other tasks run after each."""
    while True:
        await has_work.wait()
        has_work.clear()
        for _ in steps():
            await asyncio.sleep(0)


class Listings:
    """Long answers that are made in steps: to requests that ask for all that a coordinator has, such as ListGroups.

    A client has one of them under way at a time: its connection is muted until the answer is made, and what a lost
    connection asked for is dropped. So the number of connections bounds the memory of answers.

    Args:
        wake: called when there is something to do; then `steps` is to be run.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._under_way: deque[_Listing] = deque()

    def begin(self, listing: Iterator[None], session: Session | None = None, *, finishes: bool = False) -> None:
        """Take the first step of a listing now, which is all of a short one, and leave the others to `steps`.

        Args:
            session: the connection of the request; None if the request is the broker's own.
            finishes: when the connection is lost, take the other steps at once in place of none: the client waits for
                no answer, and counts on what it sent.
        """
        if next(listing, _DONE) is not _DONE:
            self._under_way.append(_Listing(listing, session, finishes))
            self._wake()

    def step(self) -> bool:
        """Take a step of one listing; return whether any is left."""
        if self._under_way:
            listing = self._under_way.popleft()
            if listing.goes_on():
                self._under_way.append(listing)
        return bool(self._under_way)

    def steps(self) -> Iterator[None]:
        """Take the listings' other steps, of each one in turn, so that none waits for the end of a longer one."""
        while self._under_way:
            self.step()
            yield


class _Listing:
    """A listing that took its first step, and the connection that is muted for it."""

    __slots__ = ("_channel", "_finishes", "_session", "_steps", "_timer")

    def __init__(self, steps: Iterator[None], session: Session | None, finishes: bool) -> None:
        self._steps = steps
        self._finishes = finishes
        self._session = session
        self._timer = None if session is None else session.timed_by
        self._channel = NO_CHANNEL if session is None else session.channel
        self._channel.mute()

    def goes_on(self) -> bool:
        """Take a step, which a quota may time; return whether there are others."""
        session, timer = self._session, self._timer
        if session is None or timer is None:
            return self._step()
        session.timed_by = timer  # also of what the step begins
        timer.resumed()
        try:
            return self._step()
        finally:
            timer.paused()
            session.timed_by = None

    def _step(self) -> bool:
        """Take a step; return whether there are others. A connection that is gone needs none."""
        is_lost = self._session is not None and self._session.channel is not self._channel
        if not is_lost and next(self._steps, _DONE) is not _DONE:
            return True
        if is_lost and self._finishes:
            deque(self._steps, maxlen=0)
        self._channel.unmute()
        return False


def listings_soon(call_soon: Callable[[Callable[[], None]], object]) -> Listings:
    """Return listings that take one step in each turn of the event loop."""
    is_called = False

    def turn() -> None:
        nonlocal is_called
        is_called = False
        if listings.step():
            wake()

    def wake() -> None:
        nonlocal is_called
        if not is_called:
            is_called = True
            call_soon(turn)

    listings = Listings(wake)
    return listings
