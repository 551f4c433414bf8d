"""How the states of share partitions go: noted as "deleting", deleted by their coordinators, then forgotten (KIP-932).

It is done for a group that is deleted, for topics whose offsets of a group are deleted, and for topics that do not
exist any more. While it is under way the partitions are asked for by no attempt to initialize them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.modern.partitions import Partitions, each
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.records import ShareUpdate, ShareWriter
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey

logger = get_logger(__name__)

Deleted = Callable[[Mapping[bytes, ErrorCode]], None]
"""Receives the topics, by id, whose states could not all be deleted, with the error of each."""


class StateDeletion:
    """Deletes the states of one broker's share groups."""

    def __init__(self, services: GroupServices, writer: ShareWriter) -> None:
        self._services = services
        self._writer = writer

    def delete_all(self, shard: GroupShard, group: Group, done: Callable[[ErrorCode], None]) -> None:
        """Delete all states of a group without members; `done` is called with the error if one could not be deleted.

        Raises:
            CoordinatorError: COORDINATOR_LOAD_IN_PROGRESS: states are being initialized or deleted.
        """
        if not isinstance(group, ShareGroup):
            done(ErrorCode.NONE)
            return
        check_idle(group, group.states.topic_ids)

        def deleted(failures: Mapping[bytes, ErrorCode]) -> None:
            done(next(iter(failures.values()), ErrorCode.NONE))

        self.delete(shard, group, {key: self.partitions_of(group, key) for key in group.states.topic_ids}, deleted)

    def forget_topics(self, shard: GroupShard, group: ShareGroup, topic_ids: Sequence[bytes]) -> None:
        """Delete the states of topics that do not exist any more.

        Of states that were to be deleted already, the partitions are not known any more: they are forgotten.
        """
        gone = {key: group.states.known(key) for key in topic_ids if key not in group.deletions}
        if gone:
            self.delete(shard, group, gone, lambda failures: None, forgets=True)

    def partitions_of(self, group: ShareGroup, topic_id: bytes) -> frozenset[int]:
        """Return the partitions of a topic that may have a state; all, if an earlier deletion may have failed."""
        topic = self._services.image().topic_by_id(topic_id)
        if topic_id in group.states.deleting and topic is not None:
            return frozenset(range(len(topic.partitions)))
        return group.states.known(topic_id)

    def delete(
        self, shard: GroupShard, group: ShareGroup, partitions: Partitions, done: Deleted, *, forgets: bool = False
    ) -> None:
        """Delete the states of whole topics.

        Args:
            partitions: those that may have a state.
            done: called when all that is committed.
            forgets: forget the topics even if that fails: no client can ask for it again.
        """
        if not partitions:
            done({})
            return
        group.deletions.update(dict.fromkeys(partitions))
        update = ShareUpdate(group, self._services.image())
        update.put_states(group.states.delete(partitions))

        def written(error_code: ErrorCode) -> None:
            if error_code:
                self._ended(group, partitions)
                done(dict.fromkeys(partitions, error_code))
            else:
                self._ask(shard, group, partitions, done, forgets)

        self._writer.write(shard, update, written)

    def _ask(self, shard: GroupShard, group: ShareGroup, partitions: Partitions, done: Deleted, forgets: bool) -> None:
        """Ask the share coordinators to delete the states."""
        keys = [SharePartitionKey(group.group_id, topic_id, number) for topic_id, number in each(partitions)]
        missing = len(keys) + 1
        failures: dict[bytes, ErrorCode] = {}

        def answered(topic_id: bytes, error_code: ErrorCode) -> None:
            nonlocal missing
            missing -= 1
            # The share coordinators delete the states of topics that are gone by themselves.
            if error_code and not (forgets and error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                failures[topic_id] = error_code
            if not missing:
                self._note(shard, group, partitions, failures, done, forgets)

        for key in keys:
            self._services.persister.delete(key, done=partial(answered, key.topic_id))
        answered(b"", ErrorCode.NONE)

    def _note(
        self,
        shard: GroupShard,
        group: ShareGroup,
        partitions: Partitions,
        failures: Mapping[bytes, ErrorCode],
        done: Deleted,
        forgets: bool,
    ) -> None:
        """Write which topics have no states any more."""
        self._ended(group, partitions)
        if failures:
            logger.warning(
                "states of share partitions could not be deleted",
                group=group.group_id,
                topics=len(failures),
                error=next(iter(failures.values())).name,
            )
        if not shard.is_active or shard.groups.get(group.group_id) is not group:
            done(dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR))
            return
        gone = [topic_id for topic_id in partitions if forgets or topic_id not in failures]
        if not gone:
            done(failures)
            return
        update = ShareUpdate(group, self._services.image())
        update.put_states(group.states.deleted(gone))

        def written(error_code: ErrorCode) -> None:
            done(dict.fromkeys(partitions, error_code) if error_code else failures)

        self._writer.write(shard, update, written)

    @staticmethod
    def _ended(group: ShareGroup, partitions: Partitions) -> None:
        for topic_id in partitions:
            group.deletions.pop(topic_id, None)
        group.is_states_stale = True


def check_idle(group: ShareGroup, topic_ids: frozenset[bytes]) -> None:
    """Check that no states of these topics are being initialized or deleted: answers could come in another order.

    Raises:
        CoordinatorError: COORDINATOR_LOAD_IN_PROGRESS, after which clients ask again.
    """
    if group.asking(topic_ids) or not topic_ids.isdisjoint(group.deletions):
        message = f"states of group {group.group_id} are being initialized or deleted"
        raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message)
