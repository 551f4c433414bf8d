"""The rules for acknowledgements, and for the next states of the records (KIP-932, KIP-1222).

Each acknowledgement of a request is checked before any is applied: for one partition all of them hold, or none.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from purgatorio.broker.share.in_flight import ACQUIRED, MAX_BATCHES, InFlightBatch, RecordsInFlight
from purgatorio.protocol.errors import ErrorCode


class AcknowledgeType(enum.IntEnum):
    """The types of acknowledgement, with Kafka's numbers."""

    GAP = 0
    """There is no such record in the log."""
    ACCEPT = 1
    """It was processed."""
    RELEASE = 2
    """It shall be delivered again."""
    REJECT = 3
    """It cannot be processed, and shall not be delivered again."""
    RENEW = 4
    """The member needs more time (KIP-1222)."""


class ShareAcknowledgementBatch(NamedTuple):
    """A member's acknowledgement of the records from the first to the last offset, both included.

    Attributes:
        types: one for all, or one for each offset; as they were received.
    """

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Decision(NamedTuple):
    """One type of acknowledgement for neighbouring offsets."""

    first_offset: int
    last_offset: int
    type: AcknowledgeType


_TYPES: Final = tuple(AcknowledgeType)


def check_form(acknowledgements: Sequence[ShareAcknowledgementBatch], *, renews: bool) -> ErrorCode:
    """Return INVALID_REQUEST if acknowledgements of one partition are not in order, or have no types or unknown ones.

    Args:
        renews: whether the request may renew: it has IsRenewAck.
    """
    highest = AcknowledgeType.RENEW if renews else AcknowledgeType.REJECT
    previous = -1
    for first_offset, last_offset, types in acknowledgements:
        count = len(types)
        if not previous <= first_offset <= last_offset or not count:
            return ErrorCode.INVALID_REQUEST
        if count > 1 and count != last_offset - first_offset + 1:
            return ErrorCode.INVALID_REQUEST
        if min(types) < 0 or max(types) > highest:
            return ErrorCode.INVALID_REQUEST
        previous = last_offset
    return ErrorCode.NONE


def check(
    records: RecordsInFlight, member_id: str, acknowledgements: Sequence[ShareAcknowledgementBatch], *, renews: bool
) -> ErrorCode:
    """Return whether a member may acknowledge these records, whose form is checked.

    Records below the start offset are not looked at: they may be acknowledged again.

    Args:
        renews: whether the group allows renewals.

    Returns:
        NONE; INVALID_REQUEST if there are offsets above the end offset; INVALID_RECORD_STATE if there are no records in
        flight, or one of these is not acquired by this member, or is being acknowledged already, or is to be renewed in
        a group that does not allow this.
    """
    previous: int | None = None
    for each in acknowledgements:
        if each.last_offset < records.start_offset:
            continue
        if not len(records) or each.first_offset == previous:
            return ErrorCode.INVALID_RECORD_STATE
        if each.last_offset > records.end_offset:
            return ErrorCode.INVALID_REQUEST
        if not renews and AcknowledgeType.RENEW in each.types:
            return ErrorCode.INVALID_RECORD_STATE
        for batch in records.overlapping(max(each.first_offset, records.start_offset), each.last_offset):
            if not batch.is_hole and not is_held(batch, member_id):
                return ErrorCode.INVALID_RECORD_STATE
        previous = each.last_offset
    return ErrorCode.NONE


def is_held(batch: InFlightBatch, member_id: str) -> bool:
    """Return whether a member has acquired a batch, and has not acknowledged it."""
    lock = batch.lock
    return batch.state is ACQUIRED and batch.target is None and lock is not None and lock.member_id == member_id


def has_room(records: RecordsInFlight, decided: Sequence[Decision]) -> bool:
    """Return whether records may be cut for these decisions; see `MAX_BATCHES` and `MAX_RUNS`."""
    if len(records) + 2 * len(decided) > MAX_BATCHES:  # so many at most; they are counted if that is too much
        more = records.cuts((each.first_offset, each.last_offset) for each in decided)
        if more and len(records) + more > MAX_BATCHES:
            return False
    renewed = [(each.first_offset, each.last_offset) for each in decided if each.type is AcknowledgeType.RENEW]
    locks = (each.lock for each in records.overlapping(*renewed[0])) if renewed else ()
    lock = next((each for each in locks if each is not None), None)
    return lock is None or not (more := records.cuts(renewed)) or more <= lock.holder.room


def decisions(acknowledgements: Sequence[ShareAcknowledgementBatch], start_offset: int) -> Iterator[Decision]:
    """Iterate over what is said about records from the start offset on; neighbours of a type come together."""
    last: Decision | None = None
    for each in _decisions(acknowledgements, start_offset):
        if last is not None and last.type is each.type and last.last_offset + 1 == each.first_offset:
            last = Decision(last.first_offset, each.last_offset, each.type)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


def _decisions(acknowledgements: Sequence[ShareAcknowledgementBatch], start_offset: int) -> Iterator[Decision]:
    for each in acknowledgements:
        first_offset = max(each.first_offset, start_offset)
        if first_offset > each.last_offset:
            continue
        types = each.types
        if len(types) == 1:
            yield Decision(first_offset, each.last_offset, _TYPES[types[0]])
            continue
        for offset in range(first_offset + 1, each.last_offset + 1):
            at = offset - each.first_offset
            if types[at] != types[at - 1]:
                yield Decision(first_offset, offset - 1, _TYPES[types[at - 1]])
                first_offset = offset
        yield Decision(first_offset, each.last_offset, _TYPES[types[-1]])
