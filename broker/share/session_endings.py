"""How share sessions end: what their members hold is released in steps, between which others have their turns."""

from __future__ import annotations

from collections import deque
from typing import Final

from purgatorio.broker.share.holdings import LockHolder
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.broker.share.share_reader import ShareSessionReader
from purgatorio.broker.share.share_session import ShareSession, ShareSessionCache
from purgatorio.broker.time.long_work import OwnWork, Steps
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import ActionQueue

MAX_RELEASED: Final = 500
"""The most runs of records that are released, and written, together."""
PARTITION_COST: Final = 2
RUN_COST: Final = 10
WRITE_COST: Final = 50
DROP_COST: Final = 20
"""The costs (see `LongWork`) of looking at a partition, of releasing one run, of writing what was released of a
partition, and of dropping a share partition."""


class SessionEndings:
    """The ends of one broker's share sessions.

    Args:
        sessions: those that have not ended.
        work: takes the steps.
    """

    def __init__(
        self,
        reader: ShareSessionReader,
        sessions: ShareSessionCache,
        actions: ActionQueue,
        work: OwnWork,
    ) -> None:
        self._shares = reader.shares
        self._reader = reader
        self._sessions = sessions
        self._actions = actions
        self._work = work
        self._ending: deque[Steps] = deque()
        self._is_under_way = False

    def begin(self, session: ShareSession, is_last: bool) -> None:
        """Give back what a member has acquired: its session has ended (see `ShareSessionCache`).

        A large session, or many that end together, take several turns of the event loop for that. Records that the
        member acquires meanwhile in another session stay acquired.
        """
        if session.operation is not None:
            with self._actions:
                session.operation.force_complete()
        self._ending.append(self._end(session, is_last))
        if not self._is_under_way:
            self._is_under_way = True
            self._work.begin_in_time(self._end_all())

    def _end_all(self) -> Steps:
        """End sessions one after the other, as the last of a group drops what the others have released."""
        while self._ending:
            yield from self._ending.popleft()
        self._is_under_way = False

    def _end(self, session: ShareSession, is_last: bool) -> Steps:
        """Release what a member holds; then drop the group's share partitions, unless it has a session again."""
        holder = session.holder
        for partition in session.partitions.values():
            self._reader.release(partition)
            cost = PARTITION_COST
            share = self._shares.known(partition.key) if holder.run_count else None
            while share is not None and (count := self._release(share, holder)):
                cost += WRITE_COST + RUN_COST * count
                if count < MAX_RELEASED:
                    break
                yield cost
                cost = PARTITION_COST
            yield cost
        if is_last:
            for share in self._shares.of_group(session.group_id):
                if self._sessions.has_group(session.group_id):
                    return
                with self._actions:
                    self._shares.drop(share)
                yield DROP_COST

    def _release(self, share: SharePartition, holder: LockHolder) -> int:
        with self._actions:
            return share.release(holder, MAX_RELEASED, _ignore)


def _ignore(error_code: ErrorCode) -> None:
    """Answer no request: a session that has ended has none. Locks on records whose release was not written run out."""
