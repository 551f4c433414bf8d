"""The mutants of share groups: rules by which no record is lost, processed twice at a time, or delivered for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.group.modern.partitions import AssignedMember, Assignment
from purgatorio.broker.group.share import records as share_records
from purgatorio.broker.group.share.assignor import assign_simple
from purgatorio.broker.share import acknowledging, share_partition, share_reader
from purgatorio.broker.share.acquiring import Offsets
from purgatorio.broker.share.acquisition_lock import AcquisitionLock, LockOwner
from purgatorio.broker.share.dead_letters.backlog import Backlog, DeadLetterBatch
from purgatorio.broker.share.dead_letters.queue import DeadLetterQueue
from purgatorio.broker.share.giving_up import Archived, GiveUpCause, RecordsOwner
from purgatorio.broker.share.holdings import LockHolder
from purgatorio.broker.share.in_flight import ACQUIRED, InFlightBatch, RecordsInFlight
from purgatorio.broker.share.lock_table import LockTable
from purgatorio.broker.share.persister import Done
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.broker.share.state.shard import ShareShard
from purgatorio.broker.share.state.upkeep import StateUpkeep
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import BatchHeader
from purgatorio.protocol.share_state import StateBatch
from purgatorio.simulation.rules import BrokerRule, Patches, declares_in, replaced

NEVER: Final = 2**63
"""Above all offsets."""

SHARE_RULES: Final[dict[str, BrokerRule]] = {}
_rule = declares_in(SHARE_RULES)


@_rule("lock-time", {"double-acquire", "stale-acknowledgement"})
def _lock_time() -> Patches:
    """28. An acquisition lock lasts as long as its answer says. Without: a tenth of that."""
    lock = LockTable.lock

    def lock_briefly(
        table: LockTable, batches: Sequence[InFlightBatch], holder: LockHolder, duration_ms: int, owner: LockOwner
    ) -> None:
        lock(table, batches, holder, duration_ms // 10, owner)

    yield replaced(LockTable, "lock", lock_briefly)


@_rule("lock-holder", {"stale-acknowledgement", "redelivered"})
def _lock_holder() -> Patches:
    """29. Only the member that has a record acknowledges it. Without: any member of the group."""
    yield replaced(acknowledging, "is_held", lambda batch, member_id: batch.state is ACQUIRED and batch.target is None)


@_rule("lock-end", {"share-state", "not-converged"})
def _lock_end() -> Patches:
    """30. Records whose lock has run out are available again. Without: they stay acquired."""
    yield replaced(AcquisitionLock, "on_expiration", lambda lock: None)


@_rule("written-acknowledgements", {"redelivered"})
def _written_acknowledgements() -> Patches:
    """31. An acknowledgement is answered when its state is written. Without: at once; the next leader may not know."""
    write = SharePartition._write

    def write_and_answer(share: SharePartition, changed: list[InFlightBatch], done: Done) -> None:
        done(ErrorCode.NONE)
        write(share, changed, lambda error_code: None)

    yield replaced(SharePartition, "_write", write_and_answer)


@_rule("loaded-states", {"redelivered", "over-delivered"})
def _loaded_states() -> Patches:
    """32. A leader takes over what was written of each record. Without: the start offset alone."""

    def start_alone(start_offset: int, batches: Sequence[StateBatch]) -> RecordsInFlight:
        return RecordsInFlight(start_offset)

    yield replaced(share_partition, "in_flight", start_alone)


@_rule("delivery-limit", {"over-delivered"})
def _delivery_limit() -> Patches:
    """33. A record is given up at the limit of deliveries. Without: at a higher one than the group has."""
    settings = SharePartition._settings

    def without_limit(share: SharePartition) -> ShareSettings:
        return replace(settings(share), delivery_count_limit=25)

    yield replaced(SharePartition, "_settings", without_limit)


@_rule("needed-states", {"redelivered", "over-delivered", "not-converged"})
def _needed_states() -> Patches:
    """34. Records of states are deleted below the oldest one that is needed. Without: all are."""
    delete_before = StateUpkeep._delete_before

    def delete_all(upkeep: StateUpkeep, shard: ShareShard, offset: int) -> None:
        delete_before(upkeep, shard, upkeep._coordinator.end_offset(shard))

    yield replaced(StateUpkeep, "_delete_before", delete_all)


@_rule("all-assigned", {"not-converged"})
def _all_assigned() -> Patches:
    """35. Each partition has a member. Without: of several, the last one has none."""

    def assign_less(members: Sequence[AssignedMember], partitions: Any) -> Assignment:
        keys = sorted(partitions)
        fewer = {key: frozenset(sorted(partitions[key])[: max(1, len(partitions[key]) - 1)]) for key in keys}
        return (yield from assign_simple(members, fewer))

    yield replaced(share_records, "assign_simple", assign_less)


@_rule("written-dead-letters", {"lost-dead-letter"})
def _written_dead_letters() -> Patches:
    """36. Records are archived when their dead letters are written. Without: when these are made, and they are not."""

    def count_as_written(queue: DeadLetterQueue, backlog: Backlog, made: DeadLetterBatch) -> None:
        queue._written(backlog, made, ErrorCode.NONE, "")

    yield replaced(DeadLetterQueue, "_write", count_as_written)


@_rule("resumed-dead-letters", {"lost-dead-letter", "owed-dead-letter"})
def _resumed_dead_letters() -> Patches:
    """37. A leader writes the dead letters that one before it has left. Without: it takes them for written."""
    give_up = DeadLetterQueue.give_up

    def give_up_alone(
        queue: DeadLetterQueue,
        owner: RecordsOwner,
        first_offset: int,
        last_offset: int,
        delivery_count: int,
        cause: GiveUpCause,
    ) -> None:
        if cause is GiveUpCause.RESUMED:
            owner.archived([Archived(first_offset, last_offset, delivery_count, True)])
        else:
            give_up(queue, owner, first_offset, last_offset, delivery_count, cause)

    yield replaced(DeadLetterQueue, "give_up", give_up_alone)


@_rule("repeated-dead-letters", {"lost-dead-letter", "owed-dead-letter"})
def _repeated_dead_letters() -> Patches:
    """38. Dead letters are written again after an error that passes. Without: their records are archived at once."""
    yield replaced(
        DeadLetterQueue,
        "_failed",
        lambda queue, backlog, why: queue._give_all_up(backlog, len(backlog.waiting), why),
    )


@_rule("ended-aborts", {"undelivered"})
def _ended_aborts() -> Patches:
    """39. An abort ends at its marker. Without: what its producer commits later is lost for a read_committed group."""

    def from_the_first_abort_on(
        headers: Sequence[BatchHeader], first_offsets: Sequence[int], producer_ids: Sequence[int]
    ) -> list[Offsets]:
        first = dict(zip(reversed(producer_ids), reversed(first_offsets), strict=True))
        return [
            Offsets(each.base_offset, each.last_offset)
            for each in headers
            if each.is_transactional and not each.is_control and each.last_offset >= first.get(each.producer_id, NEVER)
        ]

    yield replaced(share_reader, "_aborted_among", from_the_first_abort_on)
