"""The records of share groups: how they make the groups of a shard, and how updates are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.group.modern.records import Replays, UpdateWriter
from purgatorio.broker.group.modern.topic_index import TopicIndex
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard, ReplayRecord
from purgatorio.broker.group.share.delayed_initialization import DelayedInitialization
from purgatorio.broker.group.share.member import ShareMember
from purgatorio.broker.group.share.share_group import ShareGroup, ShareMemberSessions
from purgatorio.broker.group.share.state_partitions import NO_STATE, StatePartitions
from purgatorio.broker.group.share.update import TYPES, ShareUpdate
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)

_REPLAYS: Final = Replays(ShareGroup, TYPES)


def replay_states(
    shard: GroupShard,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    """Apply what has become of the states of a group's share partitions."""
    if value is not None:
        _REPLAYS.make(shard, key.group_id).put_states(StatePartitions.of_record(value))
    elif (group := _REPLAYS.find(shard, key.group_id)) is not None:
        group.put_states(NO_STATE)


REPLAYS: Final[Mapping[type, ReplayRecord]] = {
    **_REPLAYS.by_key(),
    ShareGroupStatePartitionMetadataKey: replay_states,
}
"""By type of key, what applies a record."""


class ShareGroupWriter(UpdateWriter[ShareUpdate]):
    """Writes updates of share groups, and begins the attempts to initialize states that are in them.

    Args:
        states: the groups by the topics of whose states they know.

    Attributes:
        park: called with an attempt whose records are in the log.
        ask: called when they are committed, or cannot be.
    """

    def __init__(
        self,
        services: GroupServices,
        sessions: ShareMemberSessions,
        subscriptions: TopicIndex[ShareGroup, str],
        states: TopicIndex[ShareGroup, bytes],
    ) -> None:
        super().__init__(services.log, services.clock, sessions, subscriptions, REPLAYS)
        self._states = states
        self.park: Callable[[ShareGroup, DelayedInitialization], None]
        self.ask: Callable[[GroupShard, ShareGroup, DelayedInitialization, ErrorCode], None]

    def write(
        self,
        shard: GroupShard,
        update: ShareUpdate,
        done: Committed,
        *,
        applied: Callable[[], None] | None = None,
        client: str = "",
    ) -> bool:
        """Append the records of an update; see `UpdateWriter.write`."""
        if update.initialization is not None:
            done = partial(self._committed, shard, update.group, update.initialization, done)
        return super().write(shard, update, done, applied=applied, client=client)

    def _committed(
        self,
        shard: GroupShard,
        group: ShareGroup,
        initialization: DelayedInitialization,
        done: Committed,
        error_code: ErrorCode,
    ) -> None:
        self.ask(shard, group, initialization, error_code)
        done(error_code)

    def _apply(self, shard: GroupShard, update: ShareUpdate) -> list[ShareMember]:
        removed = super()._apply(shard, update)
        group = update.group
        if update.states is not NO_STATE:
            self._states.refresh(group)
        if update.has_looked:
            group.is_metadata_stale = group.is_states_stale = False
        if update.begins_epoch:
            group.must_begin_epoch = False
        if update.initialization is not None:
            self.park(group, update.initialization)
        return removed
