"""The state that members of share groups keep at a broker, weighed: sessions by bytes, locks by runs of records.

A client chooses how many sessions a connection has, how many partitions each of them, and how finely it renews what it
has acquired. So both are counted for the whole connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.protocol.share_state import SharePartitionKey

SESSION_BYTES: Final = 3_000
"""A session without its ids and its partitions."""
PARTITION_BYTES: Final = 800
"""One partition of a session, also of an unknown topic id: its keys, and its places in six mappings."""
MAX_CONNECTION_BYTES: Final = 8 * 1024 * 1024
"""The most bytes that the share sessions of one connection take: some 10,000 partitions."""
MAX_BROKER_BYTES: Final = 48 * 1024 * 1024
"""The most bytes that all share sessions of a broker take: some 60,000 partitions."""
MAX_RUNS: Final = 2_500
"""The most runs of records that the members of one connection have acquired. Records that were acquired together are
one run, until a part of them is renewed or acknowledged. Members with more acquire and renew again when they have
acknowledged some."""


class Holdings:
    """The state of one connection's share sessions, counted.

    Args:
        has_room: called when its members may acquire again.

    Attributes:
        session_count, session_bytes: its sessions.
        run_count: the runs of records that its members have acquired.
        is_lost: whether the connection has ended.
    """

    __slots__ = ("_has_room", "is_lost", "run_count", "session_bytes", "session_count")

    def __init__(self, has_room: Callable[[], None]) -> None:
        self.session_count = 0
        self.session_bytes = 0
        self.run_count = 0
        self.is_lost = False
        self._has_room = has_room

    def count(self, more: int) -> None:
        """Count runs that its members have, or, if negative, have no more."""
        was_full = self.run_count >= MAX_RUNS
        self.run_count += more
        if was_full and self.run_count < MAX_RUNS:
            self._has_room()


class LockHolder:
    """A member with a share session, as the holder of locks. A session that it opens in place of another one goes on.

    Args:
        holdings: those of the connection on which it has its session.

    Attributes:
        run_count: the runs of records that it has acquired.
    """

    __slots__ = ("_holdings", "member_id", "run_count")

    def __init__(self, member_id: str, holdings: Holdings) -> None:
        self.member_id = member_id
        self.run_count = 0
        self._holdings = holdings

    @property
    def room(self) -> int:
        """How many runs more it may have."""
        return MAX_RUNS - self._holdings.run_count

    def count(self, more: int) -> None:
        """Count runs that it has, or, if negative, has no more."""
        self.run_count += more
        self._holdings.count(more)

    def move(self, holdings: Holdings) -> None:
        """Count its runs with those of another connection: it has a session there now."""
        self._holdings.count(-self.run_count)
        holdings.count(self.run_count)
        self._holdings = holdings


def size_of_session(group_id: str, member_id: str, partition_count: int) -> int:
    """Return the bytes that a session takes."""
    return SESSION_BYTES + 4 * (len(group_id) + len(member_id)) + PARTITION_BYTES * partition_count


def in_group(group_id: str, key: SharePartitionKey) -> SharePartitionKey:
    """Return a key with the string that a session has for its group: each request brings one of its own."""
    return SharePartitionKey(group_id, key.topic_id, key.partition)
