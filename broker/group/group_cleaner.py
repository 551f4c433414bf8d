"""Deletes groups and their offsets: on request, when their time is over, and when their topic was deleted.

It writes tombstones in steps, of which each writes one batch of at most `MAX_CHANGES`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from purgatorio.broker.coordinator.coordinator_log import Committed, ignore
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.offset_manager import OffsetManager
from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.long_work import Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.consumer_offsets import (
    NO_EXPIRY,
)
from purgatorio.protocol.errors import ErrorCode

logger = get_logger(__name__)

MAX_CHANGES: Final = 200
"""The most tombstones of one batch: far less than it may have."""
CHECK_COST: Final = 4
CHANGE_COST: Final = 20
"""The cost of looking at an offset, or at a group without offsets, and of writing a tombstone (see `LongWork`)."""

T = TypeVar("T")


class GroupCleaner:
    """Deletes groups and offsets of one broker's shards.

    Args:

    Attributes:
        delete_states: deletes what a group has in the share coordinators, then calls its last argument with NONE, or
            with an error; of other groups at once.
    """

    def __init__(
        self,
        services: GroupServices,
        coordinator: GroupCoordinator,
        offsets: OffsetManager,
    ) -> None:
        self._services = services
        self._coordinator = coordinator
        self._offsets = offsets
        self._wake = services.work.whenever_woken(self.steps)
        self.expiration_count = 0
        self.delete_states: Callable[[GroupShard, Group, Committed], None] = _without_states
        self._deleted_groups = 0  # by the expiry that is running
        self._work: deque[Steps] = deque()
        self._seen: ClusterImage | None = None

    def steps(self) -> Steps:
        """Do what waits to be done, in steps between which the loop does its other work."""
        while self._work:
            yield from self._work.popleft()
            yield 0

    def _add(self, steps: Steps) -> None:
        self._work.append(steps)
        self._wake()

    # --- on request ---

    def delete_group(self, group_id: str, done: Committed) -> None:
        """Delete a group without members, with its offsets; `done` is called when all of it is committed, or failed.

        The states of a share group are deleted first: if that fails, the group stays, and can be deleted again.

        Raises:
            CoordinatorError: GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP; COORDINATOR_LOAD_IN_PROGRESS while something else
                is being done to the states of a share group; or this broker does not coordinate the group.
        """
        shard = self._coordinator.shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            if not shard.offsets.knows(group_id) or group_id in shard.deleting:
                raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
            shard.deleting[group_id] = None
            self._add(self._delete_offsets_of(shard, group_id, done))
            return
        group.check_delete()
        if group_id in shard.deleting:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id!r} is being deleted")
        shard.deleting[group_id] = None
        try:
            self.delete_states(shard, group, partial(self._states_deleted, shard, group, done))
        except CoordinatorError:
            del shard.deleting[group_id]
            raise

    def _states_deleted(self, shard: GroupShard, group: Group, done: Committed, error_code: ErrorCode) -> None:
        """Delete a group whose states are deleted, and its offsets."""
        shard.deleting.pop(group.group_id, None)
        if error_code:
            done(error_code)
        elif not shard.is_active or not self._coordinator.discard(shard, group):
            logger.warning("no tombstone of a group could be written", group=group.group_id)
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE if shard.is_active else ErrorCode.NOT_COORDINATOR)
        else:
            shard.deleting[group.group_id] = None
            self._add(self._delete_offsets_of(shard, group.group_id, done))

    def _delete_offsets_of(self, shard: GroupShard, group_id: str, done: Committed) -> Steps:
        """Delete the offsets of a group that is gone; it cannot commit meanwhile."""
        is_deleted = True
        for chunk in _chunks(shard.offsets.partitions(group_id), MAX_CHANGES):
            is_deleted = self._delete(shard, [OffsetChange(group_id, *each, None) for each in chunk])
            if not is_deleted:
                break
            yield CHANGE_COST * len(chunk)
        shard.deleting.pop(group_id, None)
        if is_deleted:
            self._services.log.when_committed(shard.tp, done)
        else:
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE if shard.is_active else ErrorCode.NOT_COORDINATOR)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]], done: Callable[[Sequence[ErrorCode]], None]
    ) -> None:
        """Delete the offsets of a group for these topics and partitions.

        Args:
            done: receives an error code for each of the partitions: GROUP_SUBSCRIBED_TO_TOPIC if members consume the
                topic, else that of the append.

        Raises:
            CoordinatorError: INVALID_GROUP_ID; GROUP_ID_NOT_FOUND; as `Group.check_offset_delete`; or this broker does
                not coordinate the group.
        """
        shard = self._coordinator.shard_of_named(group_id)
        group = shard.groups.get(group_id)
        if group is None and not shard.offsets.knows(group_id):
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
        if group is not None:
            group.check_offset_delete()
        has_members = group is not None and not group.is_empty
        is_subscribed = {
            topic: group is not None and has_members and group.subscribes_to(topic)
            for topic in dict.fromkeys(topic for topic, _ in partitions)
        }
        offsets = shard.offsets
        changes = [
            OffsetChange(group_id, topic, partition, None)
            for topic, partition in dict.fromkeys(partitions)
            if not is_subscribed[topic] and offsets.has(group_id, topic, partition)
        ]

        def settled(error_code: ErrorCode) -> None:
            done(
                [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed[topic] else error_code for topic, _ in partitions]
            )

        if changes:
            self._offsets.write(shard, changes, settled)
        else:
            settled(ErrorCode.NONE)

    # --- deleted topics ---

    def image_changed(self, image: ClusterImage) -> None:
        """Delete the offsets of topics that were deleted, at a cost that follows what has changed."""
        before, self._seen = self._seen, image
        if before is None or not any(shard.offsets.total for shard in self._coordinator.shards):
            return
        gone = [
            delta.name
            for delta in changed_topics(before, image)
            if delta.before is not None and (delta.after is None or delta.after.topic_id != delta.before.topic_id)
        ]
        if gone:
            self._add(self._delete_offsets_of_topics(gone))

    def _delete_offsets_of_topics(self, topics: Sequence[str]) -> Steps:
        """Delete the offsets of topics that do not exist any more."""
        for shard in list(self._coordinator.shards):
            for topic in topics:
                if shard.offsets.has_topic(topic):
                    yield from self._delete_offsets_for(shard, topic)
                yield 1

    def _delete_offsets_for(self, shard: GroupShard, topic: str) -> Steps:
        """Delete the offsets of a topic that does not exist any more; not those of a new one of the same name."""
        is_over = partial(self._is_of_deleted_topic, topic)
        for group_id in shard.offsets.groups_with(topic):
            for chunk in _chunks(shard.offsets.partitions_of(group_id, topic), MAX_CHANGES):
                gone = _deletions(shard, group_id, topic, chunk, is_over)
                if gone:
                    self._delete(shard, gone)
                yield CHECK_COST * len(chunk) + CHANGE_COST * len(gone)

    def _is_of_deleted_topic(self, topic: str, committed: CommittedOffset) -> bool:
        current = self._services.image().topics.get(topic)
        return current is None or not committed.is_of(current.topic_id)

    # --- expiry ---

    def expiry_steps(self) -> Steps:
        """Delete expired offsets, those of topics that are gone, and empty groups without offsets (KIP-211)."""
        before, self._deleted_groups = self.expiration_count, 0
        for shard in list(self._coordinator.shards):
            without_offsets = [group_id for group_id in shard.groups if group_id not in shard.offsets.groups]
            for group_id in [*shard.offsets.groups, *without_offsets]:
                yield from self._expire(shard, group_id)
            yield 0
        expired = self.expiration_count - before
        if expired or self._deleted_groups:
            logger.info("committed offsets expired", offsets=expired, empty_groups=self._deleted_groups)

    def _expire(self, shard: GroupShard, group_id: str) -> Steps:
        """Delete the expired offsets of a group, and the group if it is empty.

        An open transaction keeps the offsets that it may change, and its group.
        """
        for topic, kept in list(shard.offsets.groups.get(group_id, {}).items()):
            for chunk in _chunks(list(kept), MAX_CHANGES):
                is_expired = partial(self._is_expired, shard.groups.get(group_id), topic)
                stable = [each for each in chunk if not shard.offsets.is_unstable(group_id, topic, each)]
                expired = _deletions(shard, group_id, topic, stable, is_expired)
                if expired and self._delete(shard, expired):
                    self.expiration_count += len(expired)
                yield CHECK_COST * len(chunk) + CHANGE_COST * len(expired)
        group = shard.groups.get(group_id)
        if shard.is_active and group is not None and group.gives_way and not shard.offsets.knows(group_id):
            self._deleted_groups += self._coordinator.discard(shard, group)
        yield CHECK_COST

    def _is_expired(self, group: Group | None, topic: str, committed: CommittedOffset) -> bool:
        if self._is_of_deleted_topic(topic, committed):
            return True
        from_ms: int | None = committed.commit_ms
        if group is not None:
            from_ms = group.offset_expires_from_ms(topic, committed.commit_ms)
        if from_ms is None:
            return False
        now_ms = self._services.clock.wall_ms()
        if committed.expire_ms != NO_EXPIRY:
            return now_ms >= committed.expire_ms
        return now_ms - from_ms >= self._services.config.offsets_retention_ms

    # --- the log ---

    def _delete(self, shard: GroupShard, changes: Sequence[OffsetChange]) -> bool:
        """Write tombstones of offsets; returns whether they are in the log."""
        return shard.is_active and self._offsets.write(shard, changes, ignore)


def _deletions(
    shard: GroupShard, group_id: str, topic: str, partitions: Sequence[int], is_over: Callable[[CommittedOffset], bool]
) -> list[OffsetChange]:
    """Return the deletions of the offsets that are over, those of open transactions included.

    A change that waits for the replicas may be a newer commit, and is left alone.
    """
    offsets = shard.offsets
    deletions = []
    for partition in partitions:
        if not offsets.is_pending(group_id, topic, partition):
            kept = offsets.all_of(group_id, topic, partition)
            if kept and all(map(is_over, kept)):
                deletions.append(OffsetChange(group_id, topic, partition, None))
    return deletions


def _without_states(shard: GroupShard, group: Group, done: Committed) -> None:
    """Delete nothing: no group has states."""
    done(ErrorCode.NONE)


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
