"""Long answers: made in steps, while the connection of their request starts no other."""

from __future__ import annotations

from purgatorio.broker.routing.request import Session
from purgatorio.broker.time.long_work import OwnWork, Steps, Work, take_slice


class Listings:
    """Long answers that are made in steps: to requests that ask for all that a coordinator has, such as ListGroups.

    A client has one of them under way at a time: its connection is muted until the answer is made, and what a lost
    connection asked for is dropped. So the number of connections bounds the memory of answers.

    Args:
        work: takes the steps.
    """

    def __init__(self, work: OwnWork) -> None:
        self._work = work

    def begin(self, listing: Steps, session: Session | None = None, *, finishes: bool = False) -> None:
        """Take the first steps of a listing now, which are all of a short one, and the others in the next turns.

        Args:
            session: the connection of the request; None if the request is the broker's own.
            finishes: when the connection is lost, take the other steps at once in place of none: the client waits for
                no answer, and counts on what it sent.
        """
        if session is None:
            self._work.begin(listing)
        elif take_slice(listing)[1]:
            self._work.add(_Listing(listing, session, finishes))


class _Listing(Work):
    """A listing whose first steps were taken, and the connection that is muted for it."""

    __slots__ = ("_channel", "_finishes", "_session", "_timer")

    def __init__(self, steps: Steps, session: Session, finishes: bool) -> None:
        super().__init__(steps)
        self._finishes = finishes
        self._session = session
        self._timer = session.timed_by
        self._channel = session.channel
        self._channel.mute()

    def go_on(self) -> tuple[int, bool]:
        """Take a slice, which a quota may time."""
        session, timer = self._session, self._timer
        if timer is None:
            return self._go_on()
        session.timed_by = timer  # also of what the step begins
        timer.resumed()
        try:
            return self._go_on()
        finally:
            timer.paused()
            session.timed_by = None

    def _go_on(self) -> tuple[int, bool]:
        """Take a slice; a connection that is gone needs none."""
        cost, goes_on = 0, False
        if self._session.channel is self._channel:
            cost, goes_on = take_slice(self.steps)
        elif self._finishes:
            cost = sum(self.steps)
        if not goes_on:
            self._channel.unmute()
        return cost, goes_on
