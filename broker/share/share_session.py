"""Share sessions: what a member of a share group fetches from one broker, from request to request (KIP-932).

Every member that fetches has one, at each broker: unlike a consumer's fetch (KIP-227), a share fetch always has a
session. Its first request opens it with epoch 0; each later one names the epoch that follows. It ends with epoch -1, or
when its connection is closed, which gives back at once what the member had acquired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.routing.request import Session
from purgatorio.broker.share.holdings import (
    MAX_BROKER_BYTES,
    MAX_CONNECTION_BYTES,
    Holdings,
    LockHolder,
    in_group,
    size_of_session,
)
from purgatorio.broker.tier.reads import PartRead
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import GroupOperation, KeyGroup, WatchedKey

FIRST_EPOCH: Final = 1
"""The epoch of the second request of a session, and the one after `LAST_EPOCH`."""
LAST_EPOCH: Final = 2**31 - 1


class SessionPartition(WatchedKey["ShareSession"]):
    """One partition of a share session. Compared and hashed by identity.

    Attributes:
        key: the partition as its group consumes it.
        tp: the same with the topic's name; a name that does not exist stands for an unknown topic id.
        available_bytes: what could be acquired at the last look; 0: nothing.
        error: why nothing can be acquired, as of the last look; None: there is no error.
        read: the read of the tier that it waits for, or that has failed and no member has heard of it; None: none.
    """

    __slots__ = ("available_bytes", "error", "key", "read", "tp")

    def __init__(self, context: ShareSession, key: SharePartitionKey, tp: TopicPartition) -> None:
        self.context = context
        self.key = key
        self.tp = tp
        self.available_bytes = 0
        self.error: PartitionError | None = None
        self.read: PartRead | None = None

    @property
    def is_named(self) -> bool:
        """Whether the broker knew the topic when the session was given the partition."""
        return self.tp.topic != self.key.topic_id.hex()


class ShareSession(KeyGroup[SessionPartition, GroupOperation]):
    """The partitions that one member fetches from this broker.

    Args:
        connection: the connection that opened the session.
        holder: the member as the holder of locks.

    Attributes:
        epoch: that of the next request.
        partitions: by key, in the order in which they were added.
        topics: how many partitions of each topic, without those of unknown topic ids.
        unnamed: the partitions that no answer has named yet.
        worth: the partitions of which the last look found records to acquire, or an error.
        available_bytes: the bytes that can be acquired from all partitions, as of the last look at each.
        is_open: whether it is in the cache.
        size_bytes: what it takes; the cache counts it.
        readable_by: the permissions of a client that may read all of its topics; None: that is to be checked.
    """

    __slots__ = (
        "available_bytes",
        "connection",
        "epoch",
        "group_id",
        "holder",
        "is_open",
        "member_id",
        "partitions",
        "readable_by",
        "size_bytes",
        "topics",
        "unnamed",
        "worth",
    )

    def __init__(self, group_id: str, member_id: str, connection: Session, holder: LockHolder) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.holder = holder
        self.size_bytes = 0
        self.connection = connection
        self.epoch = FIRST_EPOCH
        self.partitions: dict[SharePartitionKey, SessionPartition] = {}
        self.topics: dict[str, int] = {}
        self.marked = {}
        self.operation = None
        self.unnamed: dict[SessionPartition, None] = {}
        self.worth: dict[SessionPartition, None] = {}
        self.available_bytes = 0
        self.is_open = True
        self.readable_by: Any = None

    def add(self, key: SharePartitionKey, tp: TopicPartition) -> None:
        """Fetch from a partition from now on, if it is not one of the session's."""
        if key not in self.partitions:
            key = in_group(self.group_id, key)
            partition = self.partitions[key] = SessionPartition(self, key, tp)
            if partition.is_named:
                self.topics[tp.topic] = self.topics.get(tp.topic, 0) + 1
            self.marked[partition] = None
            self.unnamed[partition] = None

    def remove(self, key: SharePartitionKey) -> SessionPartition | None:
        """Fetch from a partition no more; return it if it was one of the session's."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            topic = partition.tp.topic
            if partition.is_named:
                self.topics[topic] -= 1
                if not self.topics[topic]:
                    del self.topics[topic]
            self.looked_at(partition, 0, None)
            self.marked.pop(partition, None)
            self.unnamed.pop(partition, None)
        return partition

    def looked_at(self, partition: SessionPartition, available_bytes: int, error: PartitionError | None) -> None:
        """Keep the result of a look at a partition."""
        self.available_bytes += available_bytes - partition.available_bytes
        partition.available_bytes = available_bytes
        partition.error = error
        if available_bytes or error is not None:
            self.worth[partition] = None
        else:
            self.worth.pop(partition, None)

    def in_turn(self, partitions: Iterable[SessionPartition]) -> list[SessionPartition]:
        """Return partitions in an order that begins with another one at each request, so that none starves."""
        listed = list(partitions)
        first = self.epoch % len(listed) if listed else 0
        return listed[first:] + listed[:first]

    def advance(self) -> None:
        """Expect the next request."""
        self.epoch = FIRST_EPOCH if self.epoch == LAST_EPOCH else self.epoch + 1


class ShareSessionCache:
    """The share sessions of one broker.

    Args:
        max_sessions: the most sessions (group.share.max.share.sessions).
        ended: called with a session that has ended, and whether it is the last one of its group on this broker.
        has_room: called with a connection whose members may acquire again: they had too many locks.

    Attributes:
        ended_count: the sessions that ended because their connection was closed, since the broker started.
        size_bytes: what all sessions take.
    """

    def __init__(
        self,
        max_sessions: int,
        ended: Callable[[ShareSession, bool], None],
        has_room: Callable[[Session], None] = lambda connection: None,
    ) -> None:
        self._max_sessions = max_sessions
        self._ended = ended
        self._has_room = has_room
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_group: dict[str, int] = {}
        self._of_connection: dict[Session, Holdings] = {}
        self.ended_count = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The partitions of all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of a group has a session here."""
        return group_id in self._of_group

    def members(self, group_id: str) -> list[str]:
        """Return the ids of a group's members that have sessions here."""
        return [member_id for group, member_id in self._sessions if group == group_id]

    def of_connection(self, connection: Session) -> list[ShareSession]:
        """Return the sessions of a connection."""
        if connection not in self._of_connection:
            return []
        return [session for session in self._sessions.values() if session.connection is connection]

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        """Return the session of a member."""
        return self._sessions.get((group_id, member_id))

    def partitions_of(self, group_id: str, member_id: str) -> list[tuple[bytes, TopicPartition]]:
        """Return the partitions of a member's session, with the ids of their topics; none if it has no session."""
        session = self.find(group_id, member_id)
        return [] if session is None else [(key.topic_id, each.tp) for key, each in session.partitions.items()]

    # --- limits ---

    def refusal(self, group_id: str, member_id: str, connection: Session, partition_count: int) -> str | None:
        """Return why a member may have no session of so many partitions, which it has or opens; None: it may."""
        before = self._sessions.get((group_id, member_id))
        count, limit = len(self._sessions), self._max_sessions
        if before is None and count >= limit:
            return f"the broker has {count} share sessions, the most that it may have"
        size_bytes = size_of_session(group_id, member_id, partition_count)
        freed_bytes = 0 if before is None else before.size_bytes
        if self.size_bytes - freed_bytes + size_bytes > MAX_BROKER_BYTES:
            return f"the share sessions of a broker take at most {MAX_BROKER_BYTES} bytes"
        held = self._of_connection.get(connection)
        held_bytes = 0 if held is None else held.session_bytes
        if before is not None and before.connection is not connection:
            freed_bytes = 0
        if held_bytes - freed_bytes + size_bytes > MAX_CONNECTION_BYTES:
            return f"the share sessions of a connection take at most {MAX_CONNECTION_BYTES} bytes"
        return None

    def weigh(self, session: ShareSession) -> None:
        """Count what a session takes that has other partitions now."""
        self._count(session, size_of_session(session.group_id, session.member_id, len(session.partitions)))

    def _count(self, session: ShareSession, size_bytes: int) -> None:
        more = size_bytes - session.size_bytes
        session.size_bytes = size_bytes
        self.size_bytes += more
        self._of_connection[session.connection].session_bytes += more

    # --- changes ---

    def open(self, group_id: str, member_id: str, connection: Session) -> ShareSession:
        """Open a session, which `refusal` allows, in place of the member's earlier one.

        Acquired records stay acquired: perhaps the member has only lost an answer.
        """
        key = group_id, member_id
        holdings = self._holdings(connection)
        holdings.session_count += 1
        before = self._sessions.pop(key, None)
        if before is None:
            self._of_group[group_id] = self._of_group.get(group_id, 0) + 1
            holder = LockHolder(member_id, holdings)
        else:
            holder = before.holder
            holder.move(holdings)
            self._leave_connection(before)
        session = self._sessions[key] = ShareSession(group_id, member_id, connection, holder)
        self.weigh(session)
        connection.when_lost[key] = lambda: self._connection_lost(session)
        if before is not None and before.operation is not None:
            before.operation.force_complete()
        return session

    def _holdings(self, connection: Session) -> Holdings:
        """Return what a connection holds. It is kept until the connection ends: records outlast sessions."""
        holdings = self._of_connection.get(connection)
        if holdings is None:
            holdings = self._of_connection[connection] = Holdings(lambda: self._has_room(connection))
            connection.when_lost[self] = lambda: self._forget(connection)
        return holdings

    def _forget(self, connection: Session) -> None:
        holdings = self._of_connection[connection]
        holdings.is_lost = True
        if not holdings.session_count:
            del self._of_connection[connection]

    def close(self, session: ShareSession) -> None:
        """End a session."""
        key = session.group_id, session.member_id
        if self._sessions.get(key) is not session:
            return
        del self._sessions[key]
        self._leave_connection(session)
        left = self._of_group.pop(session.group_id) - 1
        if left:
            self._of_group[session.group_id] = left
        self._ended(session, not left)

    def _leave_connection(self, session: ShareSession) -> None:
        session.is_open = False
        self._count(session, 0)
        connection = session.connection
        connection.when_lost.pop((session.group_id, session.member_id), None)
        holdings = self._of_connection[connection]
        holdings.session_count -= 1
        if holdings.is_lost and not holdings.session_count:
            del self._of_connection[connection]

    def _connection_lost(self, session: ShareSession) -> None:
        self.ended_count += 1
        self.close(session)
