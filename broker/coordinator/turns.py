"""Work that takes long, in steps between which the event loop does its other work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

_DONE: Final = object()


async def in_turns(has_work: asyncio.Event, steps: Callable[[], Iterator[None]]) -> None:
    """Take the steps whenever there is work, and let other tasks run after each."""
    while True:
        await has_work.wait()
        has_work.clear()
        for _ in steps():
            await asyncio.sleep(0)


class Listings:
    """Answers to requests that ask for all that a coordinator has, such as ListGroups.

    Connections bound how many there are: one has a few requests under way at a time.

    Args:
        wake: called when there is something to do; then `steps` is to be run.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._under_way: deque[Iterator[None]] = deque()

    def begin(self, listing: Iterator[None]) -> None:
        """Take the first step of a listing now, which is all of a short one, and leave the others to `steps`."""
        if next(listing, _DONE) is not _DONE:
            self._under_way.append(listing)
            self._wake()

    def steps(self) -> Iterator[None]:
        """Take the listings' other steps, of each one in turn, so that none waits for the end of a longer one."""
        while self._under_way:
            listing = self._under_way.popleft()
            if next(listing, _DONE) is not _DONE:
                self._under_way.append(listing)
            yield
