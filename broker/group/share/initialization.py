"""How the states of share partitions come to be: asked of the share coordinators, then noted, then assigned (KIP-932).

Partitions that members subscribe to and that have no state become "initializing" with a record. When it is committed
the persister is asked for the states; when all answers have come another record has the partitions that are
"initialized". Those that failed are forgotten, and asked for again after a pause. If answers do not come in time, or
the coordinator has changed, partitions are asked for again, too. Each attempt after the first begins with a new epoch
of the group: the state has that epoch, and what is left of earlier attempts is fenced by it. Kafka asks again with the
same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import ignore
from purgatorio.broker.group.modern.partitions import collect
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.delayed_initialization import AssignmentKey, DelayedInitialization, HasEnded
from purgatorio.broker.group.share.records import ShareUpdate, ShareWriter
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.group.share.state_partitions import NamedPartitions, Topics
from purgatorio.broker.time.long_work import Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey

logger = get_logger(__name__)

MAX_PER_ATTEMPT: Final = 1_000
"""The most share partitions of one attempt; later heartbeats ask for the others."""
PAUSE_MS: Final = 1_000
"""From an attempt that failed to the next one for the same partitions; the persister has tried for longer."""


class Initializations:
    """The attempts of one broker's share groups to initialize states.

    Args:
        begin: takes steps in turns of the event loop.
    """

    def __init__(self, services: GroupServices, writer: ShareWriter, begin: Callable[[Steps], None]) -> None:
        self._services = services
        self._begin_steps = begin
        self._writer = writer
        writer.park, writer.ask = self._park, self._ask

    # --- which ---

    def wanted(self, update: ShareUpdate) -> Topics:
        """Return partitions that need a state and for which no attempt is under way, or waits."""
        group = update.group
        found: dict[bytes, NamedPartitions] = {}
        room = MAX_PER_ATTEMPT
        for topic in update.existing_topics():
            if topic.topic_id in group.deletions:
                continue
            missing = update.states.missing(topic.topic_id, len(topic.partitions)) - group.asked(topic.topic_id)
            if missing:
                found[topic.topic_id] = NamedPartitions(topic.name, frozenset(sorted(missing)[:room]))
                room -= len(missing)
                if room <= 0:
                    break
        return found

    @staticmethod
    def is_again(group: ShareGroup, wanted: Topics) -> bool:
        """Return whether some of these partitions were asked for before, perhaps without an end."""
        initializing = group.states.initializing
        return bool(wanted) and (
            group.must_begin_epoch
            or any(key in initializing and numbers & initializing[key].numbers for key, (_, numbers) in wanted.items())
        )

    # --- an attempt ---

    def begin(self, update: ShareUpdate, wanted: Topics, starts: Mapping[SharePartitionKey, int] | None = None) -> None:
        """Have partitions asked for when the update is committed.

        Args:
            starts: the start offsets of all of them; None: as for partitions that have no state yet. Others of their
                topics that lack one become "initializing" with them, so that those begin likewise when they are asked
                for.
        """
        group_id = update.group.group_id
        noted: Topics = wanted
        if starts is None:
            starts = {
                SharePartitionKey(group_id, topic_id, each): update.states.new_start_offset(topic_id, each)
                for topic_id, (_, numbers) in wanted.items()
                for each in sorted(numbers)
            }
            noted = {
                topic_id: NamedPartitions(name, update.missing(topic_id)) for topic_id, (name, _) in wanted.items()
            }
        update.put_states(update.states.begin(noted))
        update.initialization = self._attempt(update, starts, {key: name for key, (name, _) in wanted.items()})

    def begin_anew(
        self,
        shard: GroupShard,
        update: ShareUpdate,
        wanted: Topics,
        starts: Mapping[SharePartitionKey, int],
        ended: HasEnded,
    ) -> None:
        """Write an update that asks for partitions, which may have a state.

        Args:
            ended: called once, when all answers have come, with the partitions that failed.
        """
        self.begin(update, wanted, starts)
        attempt = update.initialization
        assert attempt is not None
        attempt.has_ended = ended

        def written(error_code: ErrorCode) -> None:
            if error_code:
                attempt.end_with(dict.fromkeys(starts, error_code))  # if it is not in the log

        self._writer.write(shard, update, written)

    def _attempt(
        self, update: ShareUpdate, starts: Mapping[SharePartitionKey, int], names: Mapping[bytes, str]
    ) -> DelayedInitialization:
        group = update.group
        return DelayedInitialization(
            self._services.config.share_initialize_retry_ms,
            group.group_id,
            state_epoch=update.epoch,
            starts=starts,
            names=names,
            over=partial(self._over, group),
        )

    def _park(self, group: ShareGroup, attempt: DelayedInitialization) -> None:
        group.initializations[attempt] = None
        self._services.share_purgatory().try_complete_else_watch(attempt, (AssignmentKey(group.group_id),))

    def _ask(self, shard: GroupShard, group: ShareGroup, attempt: DelayedInitialization, error_code: ErrorCode) -> None:
        """Ask the share coordinators: the records of the attempt are committed, or there is an error."""
        if attempt not in group.initializations:
            return
        if error_code:
            self._end(group, attempt, dict.fromkeys(attempt.starts, error_code))
            return
        self._begin_steps(self._asking(shard, group, attempt))

    def _asking(self, shard: GroupShard, group: ShareGroup, attempt: DelayedInitialization) -> Steps:
        """Ask for partitions until the attempt ends."""
        for key, start_offset in attempt.starts.items():
            if attempt not in group.initializations:
                return
            self._services.persister.initialize(
                key,
                state_epoch=attempt.state_epoch,
                start_offset=start_offset,
                done=partial(self._answered, shard, group, attempt, key),
            )
            yield 3

    def _answered(
        self,
        shard: GroupShard,
        group: ShareGroup,
        attempt: DelayedInitialization,
        key: SharePartitionKey,
        error_code: ErrorCode,
    ) -> None:
        """Note the answer for one share partition; an attempt that was given up needs it no more."""
        if attempt not in group.initializations:
            return
        del attempt.unanswered[key]
        if error_code:
            attempt.failures[key] = error_code
        if attempt.unanswered:
            return
        if shard.is_active and shard.groups.get(group.group_id) is group:
            self._note(shard, group, attempt)
        self._end(group, attempt, attempt.failures)

    def _note(self, shard: GroupShard, group: ShareGroup, attempt: DelayedInitialization) -> None:
        """Write which partitions have a state now."""
        asked = collect((key.topic_id, key.partition) for key in attempt.starts)
        failed = collect((key.topic_id, key.partition) for key in attempt.failures)
        update = ShareUpdate(group, self._services.image())
        update.put_states(group.states.end(asked, names=attempt.names, failed=failed))
        self._writer.write(shard, update, ignore)
        if attempt.failures:
            error_code = next(iter(attempt.failures.values()))
            logger.warning(
                "states of share partitions could not be initialized",
                group=group.group_id,
                partitions=len(attempt.failures),
                error=error_code.name,
            )
            self._pause(group, attempt, error_code)

    def _pause(self, group: ShareGroup, attempt: DelayedInitialization, error_code: ErrorCode) -> None:
        """Let some time pass before the partitions that failed are asked for again."""
        starts = {key: start_offset for key, start_offset in attempt.starts.items() if key in attempt.failures}
        pause = DelayedInitialization(
            PAUSE_MS,
            group.group_id,
            state_epoch=attempt.state_epoch,
            starts=starts,
            names=attempt.names,
            over=partial(self._over, group),
            error_code=error_code,
        )
        group.must_begin_epoch = True
        self._park(group, pause)

    def _over(self, group: ShareGroup, attempt: DelayedInitialization) -> None:
        """Let partitions be asked for again: they were not answered in time, or the pause is over."""
        if attempt in group.initializations:
            late = dict.fromkeys(attempt.unanswered, ErrorCode.REQUEST_TIMED_OUT)
            self._end(group, attempt, {**attempt.failures, **late})

    def _end(
        self, group: ShareGroup, attempt: DelayedInitialization, failures: Mapping[SharePartitionKey, ErrorCode]
    ) -> None:
        """End an attempt, and let those go on that wait for it."""
        del group.initializations[attempt]
        group.is_states_stale = True
        group.must_begin_epoch |= bool(failures)
        attempt.force_complete()
        attempt.end_with(failures)
        self._services.share_purgatory().check_and_complete(AssignmentKey(group.group_id), "states of share partitions")

    def unloaded(self, group: ShareGroup) -> None:
        """End all attempts of a group that this broker no longer coordinates."""
        for attempt in list(group.initializations):
            self._end(group, attempt, dict.fromkeys(attempt.starts, ErrorCode.NOT_COORDINATOR))
