"""Checks that a log makes before it appends a produced batch (Kafka's LogValidator)."""

from __future__ import annotations

from purgatorio.broker.log.config import MAX_LONG, LogConfig
from purgatorio.broker.log.errors import InvalidBatch
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.errors import CorruptRecordError, EncodeError, ErrorCode
from purgatorio.protocol.records import (
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


class Admission:
    """The checks for the logs of one topic, prepared from its configuration.

    A batch stays opaque: only its header is read. Its records are read only if the topic is compacted (each record
    needs a key), if the broker compresses batches anew, or if timestamps have a lower bound. The upper bound is checked
    against the maximum timestamp in the header.
    """

    __slots__ = ("_after_max_ms", "_config", "_create_time", "_limit_bytes", "_reads_records")

    def __init__(self, config: LogConfig) -> None:
        self._config = config
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
            if self._reads_records and not header.is_control:
                header, batch = self._read(header, batch, wall_ms)
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
        earliest, latest = wall_ms - self._config.message_timestamp_before_max_ms, wall_ms + self._after_max_ms
        return InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp_ms} is not between {earliest} and {latest}"
        )

    def _read(self, header: BatchHeader, batch: Buffer, wall_ms: int) -> tuple[BatchHeader, Buffer]:
        """Check every record, and compress the batch anew if the topic wants another codec than the producer's."""
        records = list(iter_records(batch))
        for record in records:
            self._check_record(record, wall_ms)
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

    def _check_record(self, record: Record, wall_ms: int) -> None:
        if record.key is None and self._config.compact:
            raise InvalidBatch(
                ErrorCode.INVALID_RECORD, f"record {record.offset} has no key, and the topic is compacted"
            )
        if self._create_time and record.timestamp_ms >= 0:
            age_ms = wall_ms - record.timestamp_ms
            if not -self._after_max_ms <= age_ms <= self._config.message_timestamp_before_max_ms:
                raise self._out_of_range(record.timestamp_ms, wall_ms)


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
