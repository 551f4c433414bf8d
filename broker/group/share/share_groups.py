"""The share groups of one broker (KIP-932): the steps of their heartbeats that differ from those of other groups.

`modern/modern_groups.py` has the way of a ShareGroupHeartbeat.

A member follows the target assignment at once: as several members may have a partition, none has to give it up before
another gets it.

The partitions of a new group have no state yet, and only those with a state are assigned. Kafka answers the first
heartbeat without partitions, so that a group reads its first record after an interval of heartbeats. Here the heartbeat
that joins, or that names topics, waits for the states, for up to `MAX_WAIT_MS`: mostly they are there after some
milliseconds. That breaks no promise of Kafka's: clients wait as long for the answer to any request. Members that still
lack partitions are asked for the next heartbeat soon (see `MemberSessions.heartbeat_interval_ms`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.modern.modern_group import SubscriptionIndex, TopicIndex
from purgatorio.broker.group.modern.modern_groups import (
    JOINS,
    LEAVES,
    Answer,
    HeartbeatClient,
    Messages,
    ModernGroups,
    Sender,
)
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.delayed_initialization import AssignmentKey, DelayedAssignment
from purgatorio.broker.group.share.deletion import StateDeletion
from purgatorio.broker.group.share.initialization import Initializations
from purgatorio.broker.group.share.offsets import ShareOffsets
from purgatorio.broker.group.share.records import ShareUpdate, ShareWriter
from purgatorio.broker.group.share.share_group import NOTHING_YET, ShareAssignment, ShareGroup, ShareMemberSessions
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import ShareGroupMemberMetadataValue
from purgatorio.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

MAX_WAIT_MS: Final = 500
"""The longest time that a heartbeat waits for states: a member whose heartbeat waits cannot send the next one."""
LOADING_MS: Final = 100
"""From an attempt to change a group that is still being loaded to the next one."""
MAX_MEMBER_ID: Final = 36
"""The longest id of a member, in characters: that of a UUID as text."""


class ShareGroups(ModernGroups[ShareGroup, ShareUpdate]):
    """The share groups of one broker.

    Args:
        begin: takes the first of some steps now, and the others in turns of the event loop.

    Attributes:
        offsets: the requests about start offsets.
        deletion: deletes the states of groups.
    """

    group_type = ShareGroup
    update_type = ShareUpdate
    messages = Messages(ShareGroupHeartbeatResponse, Assignment, TopicPartitions)

    def __init__(self, services: GroupServices, coordinator: GroupCoordinator, begin: Callable[[Steps], None]) -> None:
        subscriptions = SubscriptionIndex[ShareGroup](ShareGroup.subscribed_topics)
        states = TopicIndex[ShareGroup, bytes](lambda group: group.states.topic_ids)
        sessions = ShareMemberSessions(services)
        writer = ShareWriter(services, sessions, subscriptions, states)
        super().__init__(services, coordinator, sessions, writer)
        self._subscriptions = subscriptions
        self._states = states
        self._initializations = Initializations(services, writer, begin)
        self.deletion = StateDeletion(services, writer)
        self.offsets = ShareOffsets(services, coordinator, writer, self._initializations, self.deletion)
        self._work: dict[ShareGroup, GroupShard] = {}  # the groups with states of topics that do not exist any more
        self._wake = services.work.whenever_woken(self.steps)

    # --- with the partition, and with topics ---

    def loaded(self, shard: GroupShard, group: Any) -> None:
        """Start the sessions of a group's members: this broker coordinates it from now on."""
        super().loaded(shard, group)
        self._states.refresh(group)
        if any(self._services.image().topic_by_id(each) is None for each in group.states.topic_ids):
            self._forget_later(shard, group)  # topics were deleted before this broker came

    def unloaded(self, shard: GroupShard, group: Any) -> None:
        """Stop the sessions of a group's members, and answer the heartbeats that wait with NOT_COORDINATOR."""
        super().unloaded(shard, group)
        self._states.forget(group)
        self._initializations.unloaded(group)
        self._services.share_purgatory().check_and_complete(AssignmentKey(group.group_id), "group unloaded")

    def image_changed(self, image: ClusterImage) -> None:
        """Have groups look at topics that were created, deleted, or have more partitions."""
        bereft: dict[ShareGroup, None] = {}
        for delta in self._subscriptions.image_changed(image):
            if delta.before is not None and (delta.after is None or delta.after.topic_id != delta.before.topic_id):
                bereft.update(dict.fromkeys(self._states.groups_of(delta.before.topic_id)))
        for group in bereft:
            for shard in self._coordinator.shards:
                if shard.groups.get(group.group_id) is group:
                    self._forget_later(shard, group)

    def _forget_later(self, shard: GroupShard, group: ShareGroup) -> None:
        self._work[group] = shard
        self._wake()

    def steps(self) -> Steps:
        """Delete the states of topics that do not exist any more, a group in each turn."""
        while self._work:
            group, shard = self._work.popitem()
            if shard.is_active and shard.groups.get(group.group_id) is group:
                image = self._services.image()
                gone = [each for each in sorted(group.states.topic_ids) if image.topic_by_id(each) is None]
                self.deletion.forget_topics(shard, group, gone)
            elif shard.is_kept:
                self._services.timer.call_later(LOADING_MS, self._forget_later, shard, group)
            yield 0

    # --- the request ---

    def _check_request(self, request: ShareGroupHeartbeatRequest, version: int) -> None:
        if request.member_epoch > 0 and request.rack_id is None and request.group_id and request.member_id:
            mistake = _mistake_of_id(request.member_id)  # nearly all heartbeats
        else:
            mistake = _mistake(request)
        if mistake is not None:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, mistake)

    def _check_in(self, shard: GroupShard, request: ShareGroupHeartbeatRequest) -> None:
        if request.group_id in shard.deleting:
            message = f"group {request.group_id!r} is being deleted"
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message)

    # --- the group ---

    def _convert(self, shard: GroupShard, group_id: str, other: Group | None) -> ShareGroup | None:
        """Refuse to take the place of a group of another kind, and of one with offsets alone."""
        if other is not None or shard.offsets.knows(group_id):
            raise self._no_group(group_id)
        return None

    # --- the member ---

    def _identify(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> Sender:
        member = group.members.get(request.member_id)
        if member is not None:
            return self._known(member, request)
        self._check_size(group, self._services.config.share_max_size)
        if request.member_epoch != JOINS:
            raise group.unknown(request.member_id)
        return Sender(request.member_id, NOTHING_YET, None)

    # --- the subscription ---

    def _subscription_of(
        self, shard: GroupShard, sender: Sender, request: ShareGroupHeartbeatRequest, client: HeartbeatClient
    ) -> ShareGroupMemberMetadataValue:
        known: ShareGroupMemberMetadataValue | None = sender.subscription
        names, rack_id = request.subscribed_topic_names, request.rack_id
        is_same_client = known is not None and known.client_id == client.client_id and known.client_host == client.host
        if known is not None and is_same_client and names is None and rack_id is None:
            return known  # nearly all heartbeats
        before = known or ShareGroupMemberMetadataValue()
        subscription = replace(
            before,
            rack_id=before.rack_id if rack_id is None else rack_id,
            client_id=client.client_id,
            client_host=client.host,
            subscribed_topic_names=before.subscribed_topic_names if names is None else sorted(dict.fromkeys(names)),
        )
        self._check_names(shard, subscription.subscribed_topic_names)
        return subscription

    # --- the epoch ---

    def _look(self, update: ShareUpdate, *, is_needed: bool) -> None:
        """Begin an epoch if it is needed, or if topics or states have changed, and ask for states."""
        group = update.group
        wanted = self._initializations.wanted(update)
        metadata_hash = update.metadata_hash()
        has_changed = metadata_hash != group.metadata_hash or self._initializations.is_again(group, wanted)
        is_behind = update.epoch <= update.target_epoch and update.has_unassigned()
        if is_needed or has_changed or is_behind:
            update.bump_epoch(metadata_hash)
        if wanted:
            self._initializations.begin(update, wanted)
        update.has_looked = True
        if not update.changes:
            group.is_metadata_stale = group.is_states_stale = False

    def _assignment_interval_ms(self, group: ShareGroup) -> int:
        return self._services.share_settings.of(group.group_id).assignment_interval_ms

    # --- the member's assignment ---

    def follow(self, update: ShareUpdate, sender: Sender, subscription: Any) -> ShareAssignment:
        """Return the member's partitions from now on, and write them if they are new.

        It loses those of a topic that it does not subscribe to any more at once.
        """
        current: ShareAssignment = sender.current
        following = current.moved(update.target_epoch, update.target_of(sender.member_id))
        before = sender.subscription
        if subscription is not before and (before is None or self._wants(before) != self._wants(subscription)):
            following = following.without(frozenset(following.assigned) - update.topic_ids(subscription))
        if following is not current:
            update.put_current(sender.member_id, following)
        return following

    def _is_full(self, request: ShareGroupHeartbeatRequest, sender: Sender, following: ShareAssignment) -> bool:
        return request.member_epoch == JOINS or request.subscribed_topic_names is not None

    # --- the answer ---

    def _when_assignable(self, update: ShareUpdate, subscription: Any, client: HeartbeatClient) -> Answer:
        # An attempt that this update begins is under way by the time at which the update is committed.
        awaited = update.topic_ids(subscription)
        if not update.awaits(awaited):
            return client.answer
        return partial(self._wait, update.group, awaited, client)

    def _wait(
        self,
        group: ShareGroup,
        awaited: frozenset[bytes],
        client: HeartbeatClient,
        response: ShareGroupHeartbeatResponse,
    ) -> None:
        """Answer when the states of these topics are initialized, or cannot be, or after `MAX_WAIT_MS`."""
        operation = DelayedAssignment(
            MAX_WAIT_MS,
            group.group_id,
            awaited=lambda: group.asking(awaited),
            answer=partial(self._answer_anew, group.group_id, response.member_id or "", client),
            refuse=lambda error_code: client.answer(ShareGroupHeartbeatResponse(error_code=error_code)),
        )
        operation.client = client.client_id
        self._services.share_purgatory().try_complete_else_watch(operation, (AssignmentKey(group.group_id),))

    def _answer_anew(self, group_id: str, member_id: str, client: HeartbeatClient) -> None:
        """Answer a heartbeat that has waited, as if it had come now."""
        try:
            shard, member, update = self._update_of(group_id, member_id)
            if self.settle(update, is_needed=False):
                self._assign_later(shard, update, member_id, client)
            else:
                self._answer_with_all(shard, member, update, client)
        except CoordinatorError as error:
            client.answer(self.refusal(error))


def _mistake_of_id(member_id: str) -> str | None:
    return f"a member id has {MAX_MEMBER_ID} characters at most" if len(member_id) > MAX_MEMBER_ID else None


def _mistake(request: ShareGroupHeartbeatRequest) -> str | None:
    """Return the first mistake of a request."""
    mistakes = {
        "the member id is empty": not request.member_id.strip(),
        "the group id is empty": not request.group_id.strip(),
        "the rack id is empty": request.rack_id is not None and not request.rack_id.strip(),
        "a member that joins must tell its subscription": request.member_epoch == JOINS
        and not request.subscribed_topic_names,
        f"there is no member epoch {request.member_epoch}": request.member_epoch < LEAVES,
    }
    return _mistake_of_id(request.member_id) or next((mistake for mistake, made in mistakes.items() if made), None)
