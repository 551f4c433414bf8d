"""What became of one partition's part of a request: the replicas' own answers, which handlers put into messages.

Coordinators and the delay recorder read the same answers; so nothing below `broker.api` knows how a response looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from purgatorio.protocol.errors import ErrorCode

UNKNOWN = -1


@dataclass(slots=True)
class AppendResult:
    """What became of one partition's batch.

    Attributes:
        error_code: NONE once the batch is acknowledged as `acks` asked.
        error_message: why it was refused, as a sentence; None if it was not.
        base_offset: the offset of the batch's first record; -1 if nothing was appended.
        log_append_time_ms: the time that the log gave the records; -1 unless the topic asks for that.
        log_start_offset: where the partition's log begins; -1 if nothing was appended.
        leader_id: the current leader, where this broker is not and knows it (KIP-951); else -1.
        leader_epoch: the epoch of that leader; else -1.
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    base_offset: int = UNKNOWN
    log_append_time_ms: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    leader_id: int = UNKNOWN
    leader_epoch: int = UNKNOWN


@dataclass(slots=True)
class DeleteRecordsResult:
    """What became of one partition's deletion.

    Attributes:
        low_watermark: the smallest log start offset of the in-sync replicas (KIP-107); -1 with an error.
    """

    error_code: ErrorCode = ErrorCode.NONE
    low_watermark: int = UNKNOWN


AppendDone = Callable[[Sequence[AppendResult]], None]
"""Receives one result for each batch, in the order of the batches; called once."""

DeleteRecordsDone = Callable[[Sequence[DeleteRecordsResult]], None]
"""Receives one result for each deletion, in their order; called once."""
