"""Checks that a log makes before it appends a produced batch (Kafka's LogValidator)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from purgatorio.broker.log.config import MAX_LONG, LogConfig
from purgatorio.broker.log.errors import InvalidBatch, RecordError
from purgatorio.protocol.compression import Buffer, decompress
from purgatorio.protocol.errors import CorruptRecordError, EncodeError, ErrorCode, RecordTooLargeError
from purgatorio.protocol.record_check import InvalidRecordAtError, check_records
from purgatorio.protocol.records import (
    CODEC_MASK,
    HEADER_SIZE,
    BatchHeader,
    Record,
    TimestampType,
    build_batch,
    check_crc,
    iter_batches,
    iter_records,
    read_header,
    validate_batch,
)

MAX_RECORD_ERRORS: Final = 100
"""Refused records that an answer names, of one batch: enough to find the mistake, and a bound for the answer."""
MAX_RECORDS_READ: Final = 50_000
"""Records in a batch for a topic whose records the broker reads in full, which takes microseconds each and is done in
one go. Producers' default batches are far smaller: librdkafka's have at most 10,000 records, Java's 16 KiB."""
CHECKS_PER_REQUEST: Final = 50_000
"""Records of one request that are checked, about 20 ms; one with headers counts as 8, 16 of one size in a run count as
one. What follows in the request is taken by its header: it is rare, and refusing it would hurt good producers."""
MAX_UNPACKED_BYTES: Final = 32 * 1024 * 1024
"""Bytes that the batches of one request may unpack to where their records are read: 32 times the largest batch by
default. Small batches that unpack to much (decompression bombs) could hold up the broker for long otherwise."""


class RecordValidation:
    """How a broker's logs check the records inside produced batches, and how much work one request may still cause.

    Args:
        full: whether the records are checked in any case (record.validation), or only where the topic needs it.
        max_unpacked_bytes: the bytes that the batches of one request may unpack to.
        max_checks: the records of one request that are checked, as `check_records` counts them.
    """

    __slots__ = ("_left_bytes", "_left_checks", "_max_bytes", "_max_checks", "full")

    def __init__(
        self, *, full: bool = True, max_unpacked_bytes: int = MAX_UNPACKED_BYTES, max_checks: int = CHECKS_PER_REQUEST
    ) -> None:
        self.full = full
        self._left_checks = self._max_checks = max_checks
        self._left_bytes = self._max_bytes = max_unpacked_bytes

    def begin_request(self) -> None:
        """Let the next batches, those of one request, use the full limits together."""
        self._left_bytes = self._max_bytes
        self._left_checks = self._max_checks

    def check(self, header: BatchHeader, batch: Buffer) -> None:
        """Check the records of a batch, as far as the rest of what its request may cost goes.

        Raises:
            CorruptRecordError: as `unpack` and `check_records`.
        """
        if self._left_checks > 0:
            self._left_checks = check_records(self.unpack(header, batch), header.record_count, self._left_checks)

    def unpack(self, header: BatchHeader, batch: Buffer) -> bytes:
        """Return the records of a batch, decompressed.

        Raises:
            CorruptRecordError: as `decompress`; MESSAGE_TOO_LARGE if the batch unpacks to more than is left of what its
                request may unpack to.
        """
        packed = batch[HEADER_SIZE:]
        if not header.attributes & CODEC_MASK:
            return bytes(packed)
        if self._left_bytes <= 0:
            raise RecordTooLargeError(f"the batches of a request unpack to more than {self._max_bytes} bytes")
        data = decompress(header.compression, packed, self._left_bytes)
        self._left_bytes -= len(data)
        return data


class Admission:
    """The checks for the logs of one topic, prepared from its configuration.

    The records of a batch are checked as Kafka does, unless record.validation is `header`: lengths, count and offsets.
    Each record is read in full only if the topic is compacted (it needs a key), if the broker compresses batches anew,
    or if timestamps have a lower bound. The upper bound is checked against the maximum timestamp in the header.
    """

    __slots__ = ("_after_max_ms", "_config", "_create_time", "_limit_bytes", "_reads_records", "_validation")

    def __init__(self, config: LogConfig, validation: RecordValidation | None = None) -> None:
        self._config = config
        self._validation = validation if validation is not None else RecordValidation()
        self._limit_bytes = config.max_message_bytes
        self._create_time = config.timestamp_type is TimestampType.CREATE_TIME
        self._after_max_ms = config.message_timestamp_after_max_ms
        lower_bound = self._create_time and config.message_timestamp_before_max_ms < MAX_LONG
        self._reads_records = config.compact or config.compression is not None or lower_bound

    def admit(self, records: Buffer, wall_ms: int, *, from_client: bool = True) -> tuple[BatchHeader, Buffer]:
        """Check a produced record set, which is exactly one batch.

        Args:
            records: the bytes from the produce request.
            wall_ms: the broker's time, in milliseconds since 1970.
            from_client: False for the broker's own batches, which may be control batches or lack sequences.

        Returns:
            The header and the batch to be stored; its offset and epoch are not set yet.

        Raises:
            InvalidBatch: with CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
                INVALID_TIMESTAMP or UNSUPPORTED_COMPRESSION_TYPE.
        """
        try:
            header = read_header(records)
            size_bytes = header.size_bytes
            batch = records if len(records) == size_bytes else _only_batch(records, size_bytes)
            if size_bytes > self._limit_bytes:
                raise _too_large(size_bytes, self._limit_bytes)
            if from_client:
                validate_batch(header, batch)
            else:
                check_crc(header, batch)
            self._check_timestamps(header, wall_ms)
            if header.is_control:
                pass  # the broker's own: a client's was refused above
            elif self._reads_records:
                header, batch = self._read(header, batch, wall_ms)
            elif self._validation.full:
                self._validation.check(header, batch)
        except InvalidRecordAtError as error:
            raise InvalidBatch(error.error_code, str(error), [RecordError(error.index, error.reason)]) from error
        except CorruptRecordError as error:
            raise InvalidBatch(error.error_code, str(error)) from error
        if len(batch) > self._config.segment_bytes:
            raise InvalidBatch(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(batch)} bytes do not fit a segment of {self._config.segment_bytes}",
            )
        return header, batch

    def _check_timestamps(self, header: BatchHeader, wall_ms: int) -> None:
        if header.timestamp_type is not TimestampType.CREATE_TIME:
            raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "a producer cannot set the timestamp type LogAppendTime")
        if self._create_time and header.max_timestamp > wall_ms + self._after_max_ms:
            raise self._out_of_range(header.max_timestamp, wall_ms)

    def _out_of_range(self, timestamp_ms: int, wall_ms: int) -> InvalidBatch:
        return InvalidBatch(ErrorCode.INVALID_TIMESTAMP, self._out_of_range_text(timestamp_ms, wall_ms))

    def _out_of_range_text(self, timestamp_ms: int, wall_ms: int) -> str:
        earliest, latest = wall_ms - self._config.message_timestamp_before_max_ms, wall_ms + self._after_max_ms
        return f"timestamp {timestamp_ms} is not between {earliest} and {latest}"

    def _read(self, header: BatchHeader, batch: Buffer, wall_ms: int) -> tuple[BatchHeader, Buffer]:
        """Check every record, and compress the batch anew if the topic wants another codec than the producer's."""
        if header.record_count > MAX_RECORDS_READ:
            raise InvalidBatch(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch has {header.record_count} records; this topic takes at most {MAX_RECORDS_READ}",
            )
        data = self._validation.unpack(header, batch)
        check_records(data, header.record_count)
        records = list(iter_records(batch, data=data))
        self._check_each(records, wall_ms)
        wanted = self._config.compression
        if wanted is None or wanted is header.compression:
            return header, batch
        try:
            rebuilt = build_batch(
                records,
                compression=wanted,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                transactional=header.is_transactional,
            )
        except EncodeError as error:
            raise InvalidBatch(ErrorCode.INVALID_RECORD, str(error)) from error
        if len(rebuilt) > self._limit_bytes:
            raise _too_large(len(rebuilt), self._limit_bytes)
        return read_header(rebuilt), rebuilt

    def _check_each(self, records: Sequence[Record], wall_ms: int) -> None:
        """Check keys and timestamps; the refusal names the records at fault (KIP-467), with the code of the first."""
        errors: list[RecordError] = []
        code = ErrorCode.INVALID_RECORD
        for index, record in enumerate(records):
            if record.key is None and self._config.compact:
                message = "it has no key, and the topic is compacted"
            elif self._is_out_of_range(record.timestamp_ms, wall_ms):
                message = self._out_of_range_text(record.timestamp_ms, wall_ms)
                code = code if errors else ErrorCode.INVALID_TIMESTAMP
            else:
                continue
            errors.append(RecordError(index, message))
            if len(errors) == MAX_RECORD_ERRORS:
                break
        if errors:
            first = errors[0]
            raise InvalidBatch(code, f"record {first.batch_index} of the batch: {first.message}", errors)

    def _is_out_of_range(self, timestamp_ms: int, wall_ms: int) -> bool:
        if not self._create_time or timestamp_ms < 0:
            return False
        return not -self._after_max_ms <= wall_ms - timestamp_ms <= self._config.message_timestamp_before_max_ms


def _only_batch(records: Buffer, size_bytes: int) -> memoryview:
    """The first batch of a record set. A part of a second batch may follow it, but not a whole one.

    Kafka does the same: since Produce v3 producers send one batch per partition, and other bytes are dropped.
    """
    view = memoryview(records)
    if next(iter_batches(view[size_bytes:], allow_partial=True), None) is not None:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    return view[:size_bytes]


def _too_large(size_bytes: int, limit_bytes: int) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size_bytes} bytes is larger than max.message.bytes, {limit_bytes}"
    )
