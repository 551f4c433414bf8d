"""The stored state of a share partition: records in flight to batches of state, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from purgatorio.broker.share.giving_up import Archived
from purgatorio.broker.share.in_flight import AVAILABLE, InFlightBatch, RecordsInFlight
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState, StateBatch

_STORED: Final = frozenset(RecordState) - {RecordState.ACQUIRED}

FENCING: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""The errors of a write after which this broker must not go on with the share partition: another broker leads it, or
its state was begun anew or deleted."""
_CLIENT_ERRORS: Final = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def client_error(error: ErrorCode) -> ErrorCode:
    """Return the error code for a client, for an error of the persister, as Kafka does."""
    return _CLIENT_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


def in_flight(start_offset: int, batches: Sequence[StateBatch]) -> RecordsInFlight:
    """Return the records in flight that were stored.

    Records between stored batches were acquired, but not acknowledged, when the leader changed, or are not in the log:
    they may be acquired, as if they had never been delivered.

    Raises:
        ValueError: the batches are not in order, begin below the start offset, or have a state that is never stored.
    """
    records = RecordsInFlight(start_offset)
    for each in batches:
        first_offset, last_offset, state = each.first_offset, each.last_offset, each.delivery_state
        if not records.end_offset < first_offset <= last_offset or state not in _STORED:
            raise ValueError(f"{each} does not follow {records.end_offset}, or is in no state that is stored")
        if first_offset > records.end_offset + 1:
            records.append(first_offset - 1, AVAILABLE, 0)
        records.append(last_offset, RecordState(state), each.delivery_count)
    records.advance()
    return records


def state_batches(batches: Iterable[InFlightBatch]) -> list[StateBatch]:
    """Return batches as they are stored, each in the state that is to be written; neighbours that are alike are joined.

    Args:
        batches: by ascending offset.
    """
    made: list[StateBatch] = []
    for batch in batches:
        state = batch.state if batch.target is None else batch.target
        if made:
            last = made[-1]
            if (
                last.last_offset + 1 == batch.first_offset
                and last.delivery_state == state
                and last.delivery_count == batch.delivery_count
            ):
                last.last_offset = batch.last_offset
                continue
        made.append(
            StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_state=state,
                delivery_count=batch.delivery_count,
            )
        )
    return made


def archived_batches(ranges: Iterable[Archived]) -> list[StateBatch]:
    """Return records whose ARCHIVING has ended as they are stored."""
    return [
        StateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=RecordState.ARCHIVED,
            delivery_count=each.delivery_count,
        )
        for each in ranges
    ]
