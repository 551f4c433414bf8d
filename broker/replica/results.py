"""Results of appends and deletions, per partition.

Handlers translate them into responses; coordinators and the delay recorder read them as they are. So no module below
`broker.api` depends on response messages.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from purgatorio.broker.log.errors import RecordError
from purgatorio.protocol.errors import ErrorCode

UNKNOWN = -1


class AppendResult:
    """The result of appending one batch.

    Attributes:
        error_code: NONE if the batch is acknowledged according to `acks`.
        error_message: the reason of a refusal, as a sentence; None if the batch was not refused.
        base_offset: the offset of the batch's first record; -1 if nothing was appended.
        log_append_time_ms: the timestamp that the log gave the records; -1 unless the topic uses LogAppendTime.
        log_start_offset: the log start offset of the partition; -1 if nothing was appended.
        record_errors: the records that are the reason of a refusal (KIP-467); empty if it is the batch as a whole.
        leader_id: the current leader if it is another broker and known (KIP-951); else -1.
        leader_epoch: the leader epoch of that leader; else -1.
    """

    __slots__ = (
        "base_offset",
        "error_code",
        "error_message",
        "leader_epoch",
        "leader_id",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(self, error_code: ErrorCode = ErrorCode.NONE, error_message: str | None = None) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.base_offset = UNKNOWN
        self.log_append_time_ms = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.record_errors: Sequence[RecordError] = ()
        self.leader_id = UNKNOWN
        self.leader_epoch = UNKNOWN


@dataclass(slots=True)
class DeleteRecordsResult:
    """The result of one deletion.

    Attributes:
        low_watermark: the smallest log start offset of the in-sync replicas (KIP-107); -1 with an error.
    """

    error_code: ErrorCode = ErrorCode.NONE
    low_watermark: int = UNKNOWN


AppendDone = Callable[[Sequence[AppendResult]], None]
"""Receives one result for each batch, in the order of the batches; called once."""

DeleteRecordsDone = Callable[[Sequence[DeleteRecordsResult]], None]
"""Receives one result for each deletion, in their order; called once."""
