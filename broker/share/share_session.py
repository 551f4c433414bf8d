"""Share sessions: what a member of a share group fetches from one broker, from request to request (KIP-932).

Every member that fetches has one, at each broker: unlike a consumer's fetch (KIP-227), a share fetch always has a
session. Its first request opens it with epoch 0; each later one names the epoch that follows. It ends with epoch -1, or
when its connection is closed, which gives back at once what the member had acquired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import GroupOperation, KeyGroup, WatchedKey
from purgatorio.broker.routing.request import Session
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey

FIRST_EPOCH: Final = 1
"""The epoch of the second request of a session, and the one after `LAST_EPOCH`."""
LAST_EPOCH: Final = 2**31 - 1


class SessionPartition(WatchedKey["ShareSession"]):
    """One partition of a share session. Compared and hashed by identity.

    Attributes:
        key: the partition as its group consumes it.
        tp: the same with the topic's name; a name that does not exist stands for an unknown topic id.
        available_bytes: what could be acquired at the last look; 0: nothing.
        error_code: why nothing can be acquired, as of the last look.
    """

    __slots__ = ("available_bytes", "error_code", "key", "tp")

    def __init__(self, context: ShareSession, key: SharePartitionKey, tp: TopicPartition) -> None:
        self.context = context
        self.key = key
        self.tp = tp
        self.available_bytes = 0
        self.error_code = ErrorCode.NONE


class ShareSession(KeyGroup[SessionPartition, GroupOperation]):
    """The partitions that one member fetches from this broker.

    Args:
        connection: the connection that opened the session.

    Attributes:
        epoch: that of the next request.
        partitions: by key, in the order in which they were added.
        topics: how many partitions of each topic.
        unnamed: the partitions that no answer has named yet.
        worth: the partitions of which the last look found records to acquire, or an error.
        available_bytes: the bytes that can be acquired from all partitions, as of the last look at each.
        is_open: whether it is in the cache.
        readable_by: the permissions of a client that may read all of its topics; None: that is to be checked.
    """

    __slots__ = (
        "available_bytes",
        "connection",
        "epoch",
        "group_id",
        "is_open",
        "member_id",
        "partitions",
        "readable_by",
        "topics",
        "unnamed",
        "worth",
    )

    def __init__(self, group_id: str, member_id: str, connection: Session) -> None:
        self.group_id = group_id
        self.member_id = member_id
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
            partition = self.partitions[key] = SessionPartition(self, key, tp)
            self.topics[tp.topic] = self.topics.get(tp.topic, 0) + 1
            self.marked[partition] = None
            self.unnamed[partition] = None

    def remove(self, key: SharePartitionKey) -> SessionPartition | None:
        """Fetch from a partition no more; return it if it was one of the session's."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            topic = partition.tp.topic
            self.topics[topic] -= 1
            if not self.topics[topic]:
                del self.topics[topic]
            self.looked_at(partition, 0, ErrorCode.NONE)
            self.marked.pop(partition, None)
            self.unnamed.pop(partition, None)
        return partition

    def looked_at(self, partition: SessionPartition, available_bytes: int, error_code: ErrorCode) -> None:
        """Keep the result of a look at a partition."""
        self.available_bytes += available_bytes - partition.available_bytes
        partition.available_bytes = available_bytes
        partition.error_code = error_code
        if available_bytes or error_code:
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

    Attributes:
        ended_count: the sessions that ended because their connection was closed, since the broker started.
    """

    def __init__(self, max_sessions: int, ended: Callable[[ShareSession, bool], None]) -> None:
        self._max_sessions = max_sessions
        self._ended = ended
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_group: dict[str, int] = {}
        self.ended_count = 0

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

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        """Return the session of a member."""
        return self._sessions.get((group_id, member_id))

    def partitions_of(self, group_id: str, member_id: str) -> list[tuple[bytes, TopicPartition]]:
        """Return the partitions of a member's session, with the ids of their topics; none if it has no session."""
        session = self.find(group_id, member_id)
        return [] if session is None else [(key.topic_id, each.tp) for key, each in session.partitions.items()]

    def open(self, group_id: str, member_id: str, connection: Session) -> ShareSession | None:
        """Open a session in place of the member's earlier one; None: there are too many.

        What the member had acquired stays acquired: it has only lost an answer, perhaps.
        """
        key = group_id, member_id
        before = self._sessions.pop(key, None)
        if before is None:
            if len(self._sessions) >= self._max_sessions:
                return None
            self._of_group[group_id] = self._of_group.get(group_id, 0) + 1
        else:
            self._forget_connection(before)
        session = self._sessions[key] = ShareSession(group_id, member_id, connection)
        connection.when_lost[key] = lambda: self._connection_lost(session)
        if before is not None and before.operation is not None:
            before.operation.force_complete()
        return session

    def close(self, session: ShareSession) -> None:
        """End a session."""
        key = session.group_id, session.member_id
        if self._sessions.get(key) is not session:
            return
        del self._sessions[key]
        self._forget_connection(session)
        left = self._of_group.pop(session.group_id) - 1
        if left:
            self._of_group[session.group_id] = left
        self._ended(session, not left)

    def _forget_connection(self, session: ShareSession) -> None:
        session.is_open = False
        session.connection.when_lost.pop((session.group_id, session.member_id), None)

    def _connection_lost(self, session: ShareSession) -> None:
        self.ended_count += 1
        self.close(session)
