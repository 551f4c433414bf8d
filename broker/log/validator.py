"""Checks of batches before a log appends them: of produced ones (Kafka's LogValidator), and of fetched ones."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from purgatorio.broker.log.config import LARGEST_RECORD_BYTES, MAX_LONG, LogConfig
from purgatorio.broker.log.errors import InvalidBatch, RecordError, UnexpectedOffset
from purgatorio.protocol.compression import GZIP_IS_FAST_ABOVE_BYTES, Buffer, Compression, compress, decompress_within
from purgatorio.protocol.errors import CorruptRecordError, ErrorCode, RecordTooLargeError
from purgatorio.protocol.record_check import MAX_KEYLESS, InvalidRecordAtError, check_records, check_sizes
from purgatorio.protocol.records import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    TimestampType,
    check_crc,
    iter_batches,
    iter_unpacked,
    read_header,
    validate_batch,
    with_codec,
    with_create_time,
)

WORK_PER_REQUEST: Final = 25_000
"""The work for the records of one request, in units of 0.7 µs; the event loop waits for all of it. Batches beyond it
are checked by their headers alone: they are rare, and refusing them would hurt good producers. A unit is one record
that is checked, as `check_records` counts them, or one of the following."""
UNPACKED_PER_UNIT: Final = 500
"""Bytes that are decompressed; a whole request's work lasts for 12 MiB."""
COPIED_PER_UNIT: Final = 4096
UNITS_PER_RECORD_READ: Final = 8
COMPRESSED_PER_UNIT: Final = {
    Compression.NONE: COPIED_PER_UNIT,
    Compression.GZIP: 17,
    Compression.SNAPPY: 120,
    Compression.LZ4: 120,
    Compression.ZSTD: 76,
}
"""Bytes of records that the broker compresses, by codec."""
FAST_GZIP_PER_UNIT: Final = 70
"""Those of large batches, by gzip."""
MAX_RECORD_ERRORS: Final = MAX_KEYLESS
"""Refused records that an answer names, of one batch."""


class RecordValidation:
    """How a broker's logs check the records inside produced batches, and how much work one request may still cause.

    Args:
        full: whether the records are checked in any case (record.validation), or only where the topic needs it.
        work: the work for the records of one request.

    Attributes:
        left: what is left of it for the present request.
    """

    __slots__ = ("_work", "full", "left")

    def __init__(self, *, full: bool = True, work: int = WORK_PER_REQUEST) -> None:
        self.full = full
        self._work = self.left = work

    def begin_request(self) -> None:
        """Let the next batches, those of one request, share the work of one request."""
        self.left = self._work

    def unpack(self, header: BatchHeader, batch: Buffer) -> bytes | None:
        """Return the records of a batch, decompressed; None if too little work is left for them.

        Raises:
            CorruptRecordError: as `decompress_within`; MESSAGE_TOO_LARGE if the batch alone needs more than a whole
                request's work.
        """
        if self.left <= 0:
            return None
        packed = batch[HEADER_SIZE:]
        if not header.attributes & CODEC_MASK:
            self.left -= len(packed) // COPIED_PER_UNIT
            return bytes(packed)
        left, self.left = self.left, 0
        try:
            data, cost_bytes = decompress_within(header.compression, packed, left * UNPACKED_PER_UNIT)
        except RecordTooLargeError:
            if left == self._work:
                raise
            return None
        self.left = left - cost_bytes // UNPACKED_PER_UNIT
        return data

    def check(self, header: BatchHeader, data: bytes, keyless: list[int] | None = None) -> None:
        """Check the records, as far as the rest of the work goes.

        Raises:
            InvalidRecordError: as `check_records`.
        """
        self.left = check_records(data, header.record_count, self.left, keyless)

    def may_read(self, count: int) -> bool:
        """Return whether work is left for reading so many records in full; if so, take it."""
        units = count * UNITS_PER_RECORD_READ
        if units > self.left:
            return False
        self.left -= units
        return True

    def may_compress(self, codec: Compression, size_bytes: int) -> bool:
        """Return whether work is left for compressing so many bytes; if so, take it.

        The last batch may overdraw by a quarter of a request's work: 1 MiB of records of 100 bytes, which gzip takes
        11 ms for, finds little more than half of it left by the check of the records.
        """
        is_fast = codec is Compression.GZIP and size_bytes > GZIP_IS_FAST_ABOVE_BYTES
        units = size_bytes // (FAST_GZIP_PER_UNIT if is_fast else COMPRESSED_PER_UNIT[codec])
        if self.left <= 0 or units > self.left + self._work // 4:
            return False
        self.left -= units
        return True


class Admission:
    """The checks for the logs of one topic, prepared from its configuration.

    The records of a batch are checked as Kafka does, unless record.validation is `header` and the topic does not need
    them: lengths, count and offsets; a key in each record if the topic is compacted; each record's timestamp if
    timestamps have a lower bound; the size of each record that was compressed, if the topic limits that. The upper
    bound is checked against the maximum timestamp in the header.
    """

    __slots__ = (
        "_after_max_ms",
        "_config",
        "_create_time",
        "_limit_bytes",
        "_lower_bound",
        "_needs_records",
        "_segment_bytes",
        "_validation",
    )

    def __init__(self, config: LogConfig, validation: RecordValidation | None = None) -> None:
        self._config = config
        self._validation = validation if validation is not None else RecordValidation()
        self._limit_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._create_time = config.timestamp_type is TimestampType.CREATE_TIME
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._lower_bound = self._create_time and config.message_timestamp_before_max_ms < MAX_LONG
        self._needs_records = config.compact or config.compression is not None or self._lower_bound

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
            attributes, size_bytes = header.attributes, header.size_bytes
            batch = records if len(records) == size_bytes else _only_batch(records, size_bytes)
            if size_bytes > self._limit_bytes:
                raise _too_large(size_bytes, self._limit_bytes)
            if from_client:
                validate_batch(header, batch)
            else:
                check_crc(header, batch)
            if attributes & LOG_APPEND_TIME:
                header, batch = self._with_create_time(header, batch)
            if self._create_time and header.max_timestamp > wall_ms + self._after_max_ms:
                self._name_late_records(header, batch, wall_ms)
                raise self._out_of_range(header.max_timestamp, wall_ms)
            if self._needs_records:
                header, batch = self._check(header, batch, wall_ms)
            elif self._validation.full and not attributes & CONTROL:
                self._check_form(header, batch)
        except InvalidRecordAtError as at_fault:  # not `error` again: mypyc gives a name one type
            record_errors = [RecordError(at_fault.index, at_fault.reason)]
            raise InvalidBatch(at_fault.error_code, str(at_fault), record_errors) from at_fault
        except CorruptRecordError as error:
            raise InvalidBatch(error.error_code, str(error)) from error
        if len(batch) > self._segment_bytes:
            raise InvalidBatch(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(batch)} bytes do not fit a segment of {self._segment_bytes}"
            )
        return header, batch

    def _out_of_range(self, timestamp_ms: int, wall_ms: int) -> InvalidBatch:
        return InvalidBatch(ErrorCode.INVALID_TIMESTAMP, self._out_of_range_text(timestamp_ms, wall_ms))

    def _out_of_range_text(self, timestamp_ms: int, wall_ms: int) -> str:
        earliest, latest = wall_ms - self._config.message_timestamp_before_max_ms, wall_ms + self._after_max_ms
        return f"timestamp {timestamp_ms} is not between {earliest} and {latest}"

    def _with_create_time(self, header: BatchHeader, batch: Buffer) -> tuple[BatchHeader, Buffer]:
        """Take back the timestamp type of a producer, as Kafka does where records keep the producer's timestamps."""
        if self._create_time:
            return with_create_time(header, batch)
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "a producer cannot set the timestamp type LogAppendTime")

    def _unpack(self, header: BatchHeader, batch: Buffer) -> bytes | None:
        """Return the records of a batch, decompressed; None if it is taken by its header.

        Raises:
            CorruptRecordError: as `RecordValidation.unpack`, but MESSAGE_TOO_LARGE only if the topic needs the records.
        """
        try:
            return self._validation.unpack(header, batch)
        except RecordTooLargeError as error:
            config = self._config
            limits_sizes = config.max_decompressed_message_bytes < LARGEST_RECORD_BYTES
            has_codec = config.compression is None or config.compression is header.compression
            if has_codec and not (config.compact or self._lower_bound or limits_sizes):
                return None
            raise RecordTooLargeError(f"{error}, the most that is read where a topic needs the records") from error

    def _name_late_records(self, header: BatchHeader, batch: Buffer, wall_ms: int) -> None:
        """Raise the refusal that names the records whose timestamps are out of range, if they can be read."""
        try:
            data = self._validation.unpack(header, batch)
        except RecordTooLargeError:
            return
        if data is not None:
            self._check_lower_bound(header, data, wall_ms)

    def _check_form(self, header: BatchHeader, batch: Buffer) -> None:
        """Check the form of the records."""
        validation = self._validation
        if not header.attributes & CODEC_MASK:  # as `RecordValidation.check`, without the call
            validation.left = check_records(bytes(batch[HEADER_SIZE:]), header.record_count, validation.left)
        elif (data := self._unpack(header, batch)) is not None:
            validation.check(header, data)
            self._check_sizes(data)

    def _check(self, header: BatchHeader, batch: Buffer, wall_ms: int) -> tuple[BatchHeader, Buffer]:
        """Check the records, and compress the batch anew if the topic wants another codec than the producer's.

        A control batch is the broker's own, since a client's is refused before, and is taken as it is.
        """
        validation = self._validation
        data = None if header.attributes & CONTROL else self._unpack(header, batch)
        if data is None:
            return header, batch
        keyless: list[int] | None = [] if self._config.compact else None
        validation.check(header, data, keyless)
        if header.attributes & CODEC_MASK:
            self._check_sizes(data)
        if keyless:
            raise _refused(ErrorCode.INVALID_RECORD, keyless, "it has no key, and the topic is compacted")
        if self._lower_bound:
            self._check_lower_bound(header, data, wall_ms)
        wanted = self._config.compression
        if wanted is None or wanted is header.compression or not validation.may_compress(wanted, len(data)):
            return header, batch
        rebuilt = with_codec(header, wanted, compress(wanted, data))
        if len(rebuilt) > self._limit_bytes:
            raise _too_large(len(rebuilt), self._limit_bytes)
        return read_header(rebuilt), rebuilt

    def _check_sizes(self, data: bytes) -> None:
        """Check the sizes of records that were unpacked, if the topic limits them."""
        limit_bytes = self._config.max_decompressed_message_bytes
        if limit_bytes < LARGEST_RECORD_BYTES:
            check_sizes(data, limit_bytes)

    def _check_lower_bound(self, header: BatchHeader, data: bytes, wall_ms: int) -> None:
        """Check the timestamp of every record; that of the header alone if too little work is left to read them."""
        if not self._validation.may_read(header.record_count):
            if self._is_out_of_range(header.base_timestamp, wall_ms):
                raise self._out_of_range(header.base_timestamp, wall_ms)
            return
        timestamps = [record.timestamp_ms for record in iter_unpacked(header, data)]
        late = [index for index, timestamp_ms in enumerate(timestamps) if self._is_out_of_range(timestamp_ms, wall_ms)]
        if late:
            raise _refused(
                ErrorCode.INVALID_TIMESTAMP,
                late[:MAX_RECORD_ERRORS],
                *(self._out_of_range_text(timestamps[index], wall_ms) for index in late[:MAX_RECORD_ERRORS]),
            )

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


def _refused(code: ErrorCode, indexes: Sequence[int], *reasons: str) -> InvalidBatch:
    """Return the refusal of a batch that names the records at fault (KIP-467); one reason is that of all."""
    if len(reasons) == 1:
        reasons *= len(indexes)
    errors = [RecordError(index, reason) for index, reason in zip(indexes, reasons, strict=True)]
    return InvalidBatch(code, f"record {indexes[0]} of the batch: {reasons[0]}", errors)


def _too_large(size_bytes: int, limit_bytes: int) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size_bytes} bytes is larger than max.message.bytes, {limit_bytes}"
    )


def check_fetched(
    records: Buffer, end_offset: int, *, leader_epoch: int | None, is_empty: bool
) -> list[tuple[BatchHeader, memoryview]]:
    """Return the batches with their headers.

    Args:
        records: batches; a last one that is incomplete is left out.
        end_offset: the log's end offset, at which the batches have to continue.
        leader_epoch: if given, the batches from the first one of a higher epoch on are left out.
        is_empty: whether the log has no batch. It may then begin within the first one, as after DeleteRecords up to an
            offset inside it.

    Raises:
        InvalidBatch: a batch is damaged.
        UnexpectedOffset: the offsets do not ascend from `end_offset`.
    """
    batches: list[tuple[BatchHeader, memoryview]] = []
    next_offset = end_offset
    try:
        for header, batch in iter_batches(records, allow_partial=True):
            if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
                break
            check_crc(header, batch)
            begins_within = is_empty and not batches and header.base_offset <= end_offset <= header.last_offset
            if not (header.base_offset >= next_offset or begins_within) or header.last_offset_delta < 0:
                raise UnexpectedOffset(
                    f"a batch from {header.base_offset} to {header.last_offset} does not continue at {next_offset}"
                )
            next_offset = header.last_offset + 1
            batches.append((header, batch))
    except CorruptRecordError as error:
        raise InvalidBatch(error.error_code, str(error)) from error
    return batches
