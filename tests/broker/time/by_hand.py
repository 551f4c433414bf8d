"""Long work whose turns pass when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.time.event_loop import call_soon
from purgatorio.broker.time.long_work import LongWork, Steps, take_slice


class HandWork(LongWork):
    """The works of a test's process.

    Args:
        call_soon: lets turns pass, too; by default nothing but the test does.

    Attributes:
        own: where the test's broker begins its works.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object] = lambda turn: None) -> None:
        super().__init__(call_soon)
        self.own = self.of_owner()

    def by_loop(self) -> None:
        """Have the turns of the running event loop from now on."""
        self._call_soon = call_soon

    def turn(self) -> bool:
        """Let a turn pass; return whether work is left."""
        self._turn()
        return bool(self._under_way)

    def turns(self) -> Iterator[None]:
        """Let turns pass until no work is left; yield after each."""
        while self._under_way:
            self._turn()
            yield


class HandListings(Listings):
    """Listings with the turns of a `HandWork` of their own."""

    def __init__(self) -> None:
        self.hand = HandWork()
        super().__init__(self.hand.own)

    def step(self) -> bool:
        """Let a turn pass; return whether a listing is left."""
        return self.hand.turn()

    def steps(self) -> Iterator[None]:
        """Let turns pass until no listing is left; yield after each."""
        return self.hand.turns()


def slices(steps: Steps) -> Iterator[None]:
    """Take all steps, a slice at a time; yield after each but the last."""
    while take_slice(steps)[1]:
        yield


def turns_of(steps: Steps) -> int:
    """Take all steps; return how many turns of the event loop they have ended."""
    return sum(1 for _ in slices(steps))
