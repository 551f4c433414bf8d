"""How records make the groups of a shard whose partitions the coordinator assigns, and how updates are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from purgatorio.broker.coordinator.coordinator_log import Committed, CoordinatorLog
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.modern.modern_group import ModernGroup
from purgatorio.broker.group.modern.partitions import from_wire
from purgatorio.broker.group.modern.sessions import MemberSessions
from purgatorio.broker.group.modern.topic_index import TopicIndex
from purgatorio.broker.group.modern.update import ModernUpdate, RecordTypes
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.protocol.errors import EncodeError, ErrorCode
from purgatorio.purgatory.clock import Clock

G = TypeVar("G", bound=ModernGroup[Any])


class Replays(Generic[G]):
    """Applies the records of one kind of group to a shard.

    Args:
        kind: the class of these groups.
        types: their records.
    """

    def __init__(self, kind: type[G], types: RecordTypes) -> None:
        self._kind = kind
        self._types = types

    def by_key(self) -> dict[type, ReplayRecord]:
        """Return what applies a record, by type of key."""
        return {
            self._types.group_key: self._replay_group,
            self._types.member_key: self._replay_member,
            self._types.target_epoch_key: self._replay_target_epoch,
            self._types.target_key: self._replay_target,
            self._types.current_key: self._replay_current,
        }

    def find(self, shard: GroupShard, group_id: str) -> G | None:
        """Return the group if it is of this kind."""
        group = shard.groups.get(group_id)
        return group if isinstance(group, self._kind) else None

    def make(self, shard: GroupShard, group_id: str) -> G:
        """Return the group; made anew if there is none, or one of another kind that has been converted."""
        group = self.find(shard, group_id)
        if group is None:
            group = self._kind(group_id)
            shard.put(group)
        return group

    def _replay_group(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply the group's epoch, or its end."""
        if value is None:
            if self.find(shard, key.group_id) is not None:
                shard.remove(key.group_id)
            return
        group = self.make(shard, key.group_id)
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _replay_member(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply a member's subscription, or its end."""
        if value is not None:
            self.make(shard, key.group_id).put_member(key.member_id, value)
        elif (group := self.find(shard, key.group_id)) is not None:
            group.remove_member(key.member_id)

    def _replay_target_epoch(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply the epoch of the target assignment."""
        if value is not None:
            self.make(shard, key.group_id).put_target_epoch(value.assignment_epoch)

    def _replay_target(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply what a member shall have."""
        if value is not None:
            self.make(shard, key.group_id).put_target(key.member_id, from_wire(value.topic_partitions))
        elif (group := self.find(shard, key.group_id)) is not None:
            group.put_target(key.member_id, None)

    def _replay_current(self, shard: GroupShard, key: Any, value: Any) -> None:
        """Apply what a member has been assigned."""
        if value is not None:
            self.make(shard, key.group_id).put_current_record(key.member_id, value)
        elif (group := self.find(shard, key.group_id)) is not None:
            group.put_current_record(key.member_id, None)


U = TypeVar("U", bound=ModernUpdate[Any, Any])


class UpdateWriter(Generic[U]):
    """Writes updates of one kind of group.

    Args:
        clock: when target assignments are made.
        sessions: those of members that go are ended.
        index: told when a group's subscriptions have changed.
        replays: by type of key, what applies a record; others are written only.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        clock: Clock,
        sessions: MemberSessions[Any],
        index: TopicIndex[Any, str],
        replays: Mapping[type, ReplayRecord],
    ) -> None:
        self._log = log
        self._clock = clock
        self._sessions = sessions
        self._index = index
        self._replays = replays

    def write(
        self,
        shard: GroupShard,
        update: U,
        done: Committed,
        *,
        applied: Callable[[], None] | None = None,
        client: str = "",
    ) -> bool:
        """Append the records of an update, which has at least one, and apply them.

        Args:
            done: called when they are committed or have failed.
            applied: called when the group has changed.

        Returns:
            Whether the group has changed.

        Raises:
            CoordinatorError: INVALID_REQUEST if a record cannot be encoded.
        """
        group = update.group
        nth = group.appended + 1

        def replay() -> None:
            group.appended = nth
            removed = self._apply(shard, update)
            if applied is not None:
                applied()
            self._has_removed(shard, update, removed)

        def settled(error_code: ErrorCode) -> None:
            if not error_code:
                group.committed = max(group.committed, nth)
            done(error_code)

        try:
            records = [change.encode() for change in update.changes]
        except EncodeError as error:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, str(error)) from error
        return self._log.append(shard.tp, records, settled, applied=replay, client=client)

    def when_committed(self, shard: GroupShard, group: ModernGroup[Any], done: Committed, *, client: str = "") -> None:
        """Call `done` when all changes of a group so far are committed; at once if they are."""
        nth = group.appended
        if group.committed == nth:
            done(ErrorCode.NONE)
            return

        def settled(error_code: ErrorCode) -> None:
            if not error_code:
                group.committed = max(group.committed, nth)
            done(error_code)

        self._log.when_committed(shard.tp, settled, client=client)

    def _apply(self, shard: GroupShard, update: U) -> list[Any]:
        """Apply an update; return the members that it removes."""
        group = update.group
        before = group.target_epoch
        removed = [group.members[member_id] for member_id in update.removed]
        shard.put(group)  # a new group enters, or replaces one that was converted
        for key, value in update.changes:
            replay = self._replays.get(type(key))
            if replay is not None:
                replay(shard, key, value)
        for member in removed:
            self._sessions.stop(member)
        if update.changes_subscriptions:
            self._index.refresh(group)
        if update.target_epoch > before and group.members:
            group.assigned_ms = self._clock.now_ms()
        return removed

    def _has_removed(self, shard: GroupShard, update: U, removed: list[Any]) -> None:
        """Do what follows from an update, after it was applied."""
