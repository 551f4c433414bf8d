"""The start offsets of share groups: described with their lag, altered, and deleted (KIP-932, KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from purgatorio.broker.coordinator.end_offsets import EndOffset
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.deletion import StateDeletion, check_idle
from purgatorio.broker.group.share.initialization import Initializations
from purgatorio.broker.group.share.records import ShareUpdate, ShareWriter
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.group.share.state_partitions import NamedPartitions
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import ZERO_UUID
from purgatorio.protocol.share_state import NO_START_OFFSET, UNKNOWN_COMPLETE_COUNT, SharePartitionKey

UNKNOWN_LAG: Final = -1
"""The lag of a share partition that has no start offset yet."""


class StartOffset(NamedTuple):
    """The start offset of a share partition, as it is described; −1: there is none yet.

    Attributes:
        lag: the records that are not done with; −1: unknown.
    """

    partition: int
    start_offset: int = NO_START_OFFSET
    leader_epoch: int = 0
    lag: int = UNKNOWN_LAG
    error_code: ErrorCode = ErrorCode.NONE


class TopicStarts(NamedTuple):
    """The start offsets of one topic."""

    name: str
    topic_id: bytes
    partitions: list[StartOffset]


class ShareOffsets:
    """Handles the requests about the start offsets of one broker's share groups."""

    def __init__(
        self,
        services: GroupServices,
        coordinator: GroupCoordinator,
        writer: ShareWriter,
        initializations: Initializations,
        deletion: StateDeletion,
    ) -> None:
        self._services = services
        self._coordinator = coordinator
        self._writer = writer
        self._initializations = initializations
        self._deletion = deletion

    # --- describe ---

    def initialized(self, group_id: str) -> list[tuple[str, list[int]]]:
        """Return the partitions of a group that have a state, by topic; nothing for a group that does not exist.

        Raises:
            CoordinatorError: this broker does not coordinate the group.
        """
        group = self._coordinator.shard_of(group_id).groups.get(group_id)
        states = group.states.initialized if isinstance(group, ShareGroup) else {}
        image = self._services.image()
        found = ((image.topic_by_id(topic_id), numbers) for topic_id, (_, numbers) in states.items())
        return sorted((topic.name, sorted(numbers)) for topic, numbers in found if topic is not None)

    def describe(
        self,
        group_id: str,
        topics: Iterable[tuple[str, Sequence[int]]],
        done: Callable[[list[TopicStarts]], None],
    ) -> None:
        """Call `done` with the start offsets of a group, now or later.

        An unknown offset is no error, as in OffsetFetch: it is −1. So it is for a group that does not exist.

        Args:
            topics: the partitions to describe, by topic.

        Raises:
            CoordinatorError: this broker does not coordinate the group.
        """
        self._coordinator.shard_of(group_id)
        image = self._services.image()
        asked = [(name, image.topics.get(name), list(numbers)) for name, numbers in topics]
        keys = {
            SharePartitionKey(group_id, topic.topic_id, number): TopicPartition(name, number)
            for name, topic, numbers in asked
            if topic is not None
            for number in numbers
            if 0 <= number < len(topic.partitions)
        }

        def answer(starts: Mapping[TopicPartition, StartOffset]) -> None:
            done(
                [
                    TopicStarts(
                        name,
                        ZERO_UUID if topic is None else topic.topic_id,
                        [starts.get(TopicPartition(name, each)) or StartOffset(each) for each in numbers],
                    )
                    for name, topic, numbers in asked
                ]
            )

        self._summarize(keys, answer)

    def _summarize(
        self,
        keys: Mapping[SharePartitionKey, TopicPartition],
        done: Callable[[Mapping[TopicPartition, StartOffset]], None],
    ) -> None:
        """Ask the share coordinators, then the leaders."""
        missing = len(keys) + 1
        starts: dict[TopicPartition, StartOffset] = {}
        counts: dict[TopicPartition, int] = {}

        def answered(tp: TopicPartition | None, error_code: ErrorCode, state: Any) -> None:
            nonlocal missing
            missing -= 1
            if tp is not None and not error_code and state is not None:
                starts[tp] = StartOffset(tp.partition, state.start_offset, state.leader_epoch)
                if state.start_offset != NO_START_OFFSET and state.delivery_complete_count != UNKNOWN_COMPLETE_COUNT:
                    counts[tp] = state.delivery_complete_count
            if not missing:
                self._services.end_offsets(counts, found)

        def found(ends: Mapping[TopicPartition, EndOffset]) -> None:
            for tp, (error_code, end_offset) in ends.items():
                start = starts[tp]
                if error_code:
                    starts[tp] = StartOffset(tp.partition, error_code=error_code)
                else:
                    starts[tp] = start._replace(lag=end_offset - start.start_offset - counts[tp])
            done(starts)

        for key, tp in keys.items():
            self._services.persister.summary(key, done=partial(answered, tp))
        answered(None, ErrorCode.NONE, None)

    # --- alter ---

    def alter(
        self,
        group_id: str,
        starts: Mapping[str, Mapping[int, int]],
        done: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Begin new states at these offsets, in place of older ones; the group need not exist.

        A new epoch of the group fences the leaders that still work with the older states.

        Args:
            starts: the offsets, by topic and partition; these exist.
            done: called once, when that is committed, with the partitions that failed.

        Raises:
            CoordinatorError: INVALID_GROUP_ID; GROUP_ID_NOT_FOUND for a group of another kind; NON_EMPTY_GROUP;
                COORDINATOR_LOAD_IN_PROGRESS while states of these topics are being initialized or deleted; or this
                broker does not coordinate the group.
        """
        shard = self._shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is None and not shard.offsets.knows(group_id):
            shard.check_group_count(self._services.config.max_groups)
            group = ShareGroup(group_id)
        group = _checked(group, group_id)
        wanted, offsets = _wanted(group_id, starts, self._services.image())
        check_idle(group, frozenset(wanted))
        if not wanted:
            done({})
            return

        def ended(failures: Mapping[SharePartitionKey, ErrorCode]) -> None:
            self._writer.when_committed(shard, group, partial(committed, failures))

        def committed(failures: Mapping[SharePartitionKey, ErrorCode], error_code: ErrorCode) -> None:
            failures = dict.fromkeys(offsets, error_code) if error_code else failures
            named = ((TopicPartition(wanted[key.topic_id].name, key.partition), key) for key in failures)
            done({tp: failures[key] for tp, key in named})

        update = ShareUpdate(group, self._services.image())
        update.bump_epoch(update.metadata_hash())
        update.assign_to_nobody(self._services.clock.wall_ms())
        self._initializations.begin_anew(shard, update, wanted, offsets, ended)

    # --- delete ---

    def delete(self, group_id: str, topics: Sequence[str], done: Callable[[Mapping[str, ErrorCode]], None]) -> None:
        """Delete the states of a group for whole topics.

        Args:
            done: called once, when that is committed, with the topics that failed: UNKNOWN_TOPIC_OR_PARTITION for one
                without a state.

        Raises:
            CoordinatorError: INVALID_GROUP_ID; GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP; COORDINATOR_LOAD_IN_PROGRESS while
                states of these topics are being initialized or deleted; or this broker does not coordinate the group.
        """
        shard = self._shard_of(group_id)
        group = _checked(shard.groups.get(group_id), group_id)
        failures: dict[str, ErrorCode] = {}
        found: dict[bytes, str] = {}
        for name in dict.fromkeys(topics):
            topic = self._services.image().topics.get(name)
            if topic is None or not (
                topic.topic_id in group.states.initialized or topic.topic_id in group.states.deleting
            ):
                failures[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                found[topic.topic_id] = name
        check_idle(group, frozenset(found))

        def deleted(failed: Mapping[bytes, ErrorCode]) -> None:
            done({**failures, **{found[topic_id]: code for topic_id, code in failed.items()}})

        self._deletion.delete(shard, group, {key: self._deletion.partitions_of(group, key) for key in found}, deleted)

    def _shard_of(self, group_id: str) -> GroupShard:
        shard = self._coordinator.shard_of_named(group_id)
        if group_id in shard.deleting:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id!r} is being deleted")
        return shard


def _checked(group: object, group_id: str) -> ShareGroup:
    """Return a share group without members.

    Raises:
        CoordinatorError: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP.
    """
    if not isinstance(group, ShareGroup):
        raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no share group {group_id}")
    group.check_delete()
    return group


def _wanted(
    group_id: str, starts: Mapping[str, Mapping[int, int]], image: ClusterImage
) -> tuple[dict[bytes, NamedPartitions], dict[SharePartitionKey, int]]:
    """Return the partitions that get a new state, and their start offsets."""
    wanted: dict[bytes, NamedPartitions] = {}
    offsets: dict[SharePartitionKey, int] = {}
    for name, of_topic in starts.items():
        topic = image.topics.get(name)
        if topic is not None and of_topic:
            wanted[topic.topic_id] = NamedPartitions(name, frozenset(of_topic))
            offsets.update(
                (SharePartitionKey(group_id, topic.topic_id, number), of_topic[number]) for number in of_topic
            )
    return wanted, offsets
