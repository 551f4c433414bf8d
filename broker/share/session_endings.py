"""How share sessions end: what their members hold is released in steps, between which others have their turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from purgatorio.broker.share.share_partitions import SharePartitions
from purgatorio.broker.share.share_reader import ShareSessionReader
from purgatorio.broker.share.share_session import ShareSession
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import ActionQueue

WORK_PER_TURN: Final = 4_000
"""The work for sessions that have ended, in one turn of the event loop: in units of some 2 µs, the work for one
partition of which the member has no records."""
RELEASED_PER_STEP: Final = 500
"""The most runs of records that are released together."""
RUN_WORK: Final = 5
WRITE_WORK: Final = 25
DROP_WORK: Final = 10
"""The work to release one run, to write what was released of a partition, and to drop a share partition."""


class SessionEndings:
    """The ends of one broker's share sessions.

    Args:
        has_group: returns whether a group has a session here.
        call_later: the clock's; with 0, a later turn of the event loop.
    """

    def __init__(
        self,
        shares: SharePartitions,
        reader: ShareSessionReader,
        has_group: Callable[[str], bool],
        actions: ActionQueue,
        call_later: Callable[[int, Callable[[], None]], Any],
    ) -> None:
        self._shares = shares
        self._reader = reader
        self._has_group = has_group
        self._actions = actions
        self._call_later = call_later
        self._under_way: deque[Iterator[int]] = deque()
        self._left_in_turn = WORK_PER_TURN
        self._goes_on = False

    def begin(self, session: ShareSession, is_last: bool) -> None:
        """Give back what a member has acquired: its session has ended (see `ShareSessionCache`).

        A large session, or many that end together, take several turns of the event loop for that. Records that the
        member acquires meanwhile in another session stay acquired.
        """
        if session.operation is not None:
            with self._actions:
                session.operation.force_complete()
        self._under_way.append(self._steps(session, is_last))
        self._take_steps()

    def _steps(self, session: ShareSession, is_last: bool) -> Iterator[int]:
        """Release what a member holds; then drop the group's share partitions, unless it has a session again.

        Yields the work of each step.
        """
        holder = session.holder
        for partition in session.partitions.values():
            self._reader.release(partition)
            work = 1
            share = self._shares.known(partition.key) if holder.run_count else None
            while share is not None and (count := share.release(holder, RELEASED_PER_STEP, _ignore)):
                work += WRITE_WORK + RUN_WORK * count
                if count < RELEASED_PER_STEP:
                    break
                yield work
                work = 1
            yield work
        if is_last:
            for share in self._shares.of_group(session.group_id):
                if self._has_group(session.group_id):
                    return
                self._shares.drop(share)
                yield DROP_WORK

    def _take_steps(self) -> None:
        """Take as many steps as this turn of the event loop may have, and leave the others to later ones."""
        with self._actions:
            while self._under_way and self._left_in_turn > 0:
                work = next(self._under_way[0], 0)
                if work:
                    self._left_in_turn -= work
                else:
                    self._under_way.popleft()
        if not self._goes_on:
            self._goes_on = True
            self._call_later(0, self._next_turn)

    def _next_turn(self) -> None:
        self._goes_on = False
        self._left_in_turn = WORK_PER_TURN
        if self._under_way:
            self._take_steps()


def _ignore(error_code: ErrorCode) -> None:
    """Answer no request: a session that has ended has none. Locks on records whose release was not written run out."""
