"""Record batches (magic 2): reading, checking and building them, and iterating over their records.

A broker treats a batch as opaque: `read_header` and `validate_batch` check the header, and `place_batch` writes base
offset and partition leader epoch into it. These two fields lie outside the CRC, so that the CRC stays as it is.
Magic 0 and 1 are not supported (KIP-724). Sources: KIP-98 (format), KIP-534 (delete horizon).

Where two errors fit, the code is the one that Kafka answers: INVALID_RECORD for an incomplete batch or an older magic;
CORRUPT_MESSAGE for an unknown magic, an impossible size or a wrong CRC.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from fastcrc import crc32

from purgatorio.protocol.compression import MAX_DECOMPRESSED_BYTES, Buffer, Compression, compress, decompress
from purgatorio.protocol.errors import (
    CorruptRecordError,
    EncodeError,
    InvalidRecordError,
    UnsupportedCompressionError,
)
from purgatorio.protocol.record import Record, RecordsEncoder, read_place, read_record

HEADER_SIZE: Final = 61
"""Size in bytes of the batch header, which lies before the records."""
MAGIC: Final = 2
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1
"""The highest sequence number; 0 follows it."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PLACE: Final = struct.Struct(">qii")  # base offset, batch length, partition leader epoch
_LENGTH: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_BEFORE_CRC: Final = struct.Struct(">qiibI")

_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_START: Final = 43

_LENGTH_END: Final = 12  # base offset and batch length, which the batch length does not count
_EPOCH_END: Final = 16
_CRC_START: Final = 17
_CRC_END: Final = 21
_ATTRIBUTES_END: Final = 23
_MIN_LENGTH: Final = HEADER_SIZE - _LENGTH_END
_MIN_MESSAGE_LENGTH: Final = 14
"""The length of a message of magic 0 without key and value, as its length field says it."""

CODEC_MASK: Final = 0x07
"""The bits of a batch's attributes that name its codec; 0: not compressed."""
LOG_APPEND_TIME: Final = 0x08
"""The attribute of a batch whose timestamps a broker has set."""
_TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
"""The attribute of a batch of control records."""
_DELETE_HORIZON: Final = 0x40
_LAST_CODEC: Final = max(Compression)
_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1

_crc32c = crc32.iscsi  # the CRC-32C, of any buffer
_new_tuple = tuple.__new__


class TimestampType(IntEnum):
    """The source of a batch's timestamps: the producer (create time) or the broker (log append time)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch. Timestamps are milliseconds since 1970-01-01 UTC, or −1."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return self.batch_length + _LENGTH_END

    @property
    def last_offset(self) -> int:
        """Offset of the last record; compaction may have removed that record and keeps the offset."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        """The codec that the records are compressed with.

        Raises:
            UnsupportedCompressionError: the codec is unknown.
        """
        codec = self.attributes & CODEC_MASK
        if codec > _LAST_CODEC:
            raise UnsupportedCompressionError(f"unknown compression codec {codec}")
        return Compression(codec)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are control records (transaction markers), which consumers do not deliver."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones, in milliseconds since 1970; None if not set (KIP-534)."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer made the batch, so that its sequence numbers count."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; 2³¹−1 is followed by 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


# --- headers and whole batches -----------------------------------------------------------------------------------


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch at `position`; `data` must hold the whole batch.

    Raises:
        InvalidRecordError: the data ends before the batch does, or its magic is 0 or 1.
        CorruptRecordError: the magic is unknown, or the length is less than a header; or, before the magic is looked
            at, less than that of the shortest message of an old format, as in Kafka.
    """
    available = len(data) - position
    if available < HEADER_SIZE:
        raise _unreadable(data, position, available)
    header = _new_tuple(BatchHeader, _HEADER.unpack_from(data, position))  # a third of what `_make` takes
    if header[3] != MAGIC or not _MIN_LENGTH <= header[1] <= available - _LENGTH_END:
        raise _unreadable(data, position, available)
    return header


def _unreadable(data: Buffer, position: int, available: int) -> CorruptRecordError:
    """Return the error for an unreadable header; check the magic first, as an old message may be shorter than it."""
    length = _LENGTH.unpack_from(data, position + 8)[0] if available >= _LENGTH_END else _MIN_LENGTH
    if length < _MIN_MESSAGE_LENGTH:
        return CorruptRecordError(f"neither a batch nor an old message can be {length} bytes long")
    if available > _EPOCH_END:
        magic = data[position + _EPOCH_END]
        if magic < MAGIC:
            return InvalidRecordError(f"records of magic {magic} are not supported, only of magic {MAGIC}")
        if magic > MAGIC:
            return CorruptRecordError(f"there is no magic {magic}")
        if length < _MIN_LENGTH:
            return CorruptRecordError(f"a batch cannot be {length} bytes long")
    return InvalidRecordError(f"the data ends {available} bytes into a batch")


def iter_batches(data: Buffer, *, allow_partial: bool = False) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate over the batches of a record set, as headers and views (slices) of `data`.

    Args:
        data: batches, one after another.
        allow_partial: stop without an error at an incomplete last batch, as a fetch response may end with one.

    Raises:
        CorruptRecordError: as `read_header`.
    """
    view = memoryview(data)
    position, end = 0, len(view)
    while position < end:
        if allow_partial:
            if end - position < _LENGTH_END:
                return
            (length,) = _LENGTH.unpack_from(view, position + 8)
            if length > end - position - _LENGTH_END:
                return
        header = read_header(view, position)
        next_position = position + header.size_bytes
        yield header, view[position:next_position]
        position = next_position


def end_of_batches(data: Buffer, count: int) -> int:
    """Return where the first `count` batches end; the end of `data` if there are no more, or one of them is damaged."""
    position, end = 0, len(data)
    while count > 0 and end - position >= _LENGTH_END:
        (length,) = _LENGTH.unpack_from(data, position + 8)
        position += _LENGTH_END + length
        if length < 0 or position > end:
            return end
        count -= 1
    return end if count > 0 else position


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Check the CRC-32C of exactly one batch, which is not copied if it is a view.

    Raises:
        CorruptRecordError: the header's CRC differs from the computed one.
    """
    computed = _crc32c(batch[_CRC_END:])
    if computed != header.crc:
        raise CorruptRecordError(f"the batch is corrupt: its CRC is {header.crc}, computed is {computed}")


def validate_batch(header: BatchHeader, batch: Buffer) -> None:
    """Check CRC and header of a batch that a producer sent; its records are not read.

    Args:
        header: the header of `batch`.
        batch: exactly one batch.

    Raises:
        CorruptRecordError: CORRUPT_MESSAGE for a wrong CRC; INVALID_RECORD for a base offset other than 0, a record
            count that does not match the offsets, a control batch, or a missing sequence number;
            UNSUPPORTED_COMPRESSION_TYPE for an unknown codec.
    """
    check_crc(header, batch)
    if header.base_offset:
        raise InvalidRecordError(f"the base offset of a produced batch is 0, not {header.base_offset}")
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise InvalidRecordError(f"{count} records do not fit a last offset delta of {header.last_offset_delta}")
    if header.attributes & CODEC_MASK > _LAST_CODEC:
        raise UnsupportedCompressionError(f"unknown compression codec {header.attributes & CODEC_MASK}")
    if header.attributes & CONTROL:
        raise InvalidRecordError("control records are not for clients to write")
    if header.base_sequence < 0 <= header.producer_id:
        raise InvalidRecordError(f"producer {header.producer_id} sends no sequence number ({header.base_sequence})")


def is_transactional(batch: Buffer) -> bool:
    """Return whether the attributes of a batch say that it belongs to a transaction; reads nothing else of it."""
    return len(batch) > _CRC_END + 1 and batch[_CRC_END + 1] & _TRANSACTIONAL != 0


def producer_in(batch: Buffer) -> tuple[int, int] | None:
    """Return the producer id and epoch of a batch, without reading the rest of it; None for bytes that are no batch."""
    if len(batch) < HEADER_SIZE or batch[_EPOCH_END] != MAGIC:
        return None
    producer: tuple[int, int] = _PRODUCER.unpack_from(batch, _PRODUCER_START)
    return producer


def place_batch(batch: Buffer, base_offset: int, leader_epoch: int, *, log_append_time_ms: int | None = None) -> bytes:
    """Return a copy of a batch with the base offset and leader epoch that it has in the log.

    Args:
        batch: exactly one batch.
        base_offset: the offset of its first record.
        leader_epoch: the epoch of the leader that appends it.
        log_append_time_ms: if given, it replaces all records' timestamps (message.timestamp.type=LogAppendTime),
            which changes the CRC.
    """
    length = len(batch) - _LENGTH_END
    if log_append_time_ms is None:
        return b"".join((_PLACE.pack(base_offset, length, leader_epoch), batch[_EPOCH_END:]))
    placed = bytearray(batch)
    _PLACE.pack_into(placed, 0, base_offset, length, leader_epoch)
    header = _HEADER.unpack_from(placed)
    attributes = header[5] | LOG_APPEND_TIME
    _AFTER_CRC.pack_into(placed, _CRC_END, attributes, header[6], header[7], log_append_time_ms, *header[9:])
    crc = _crc32c(memoryview(placed)[_CRC_END:])
    placed[_CRC_START:_CRC_END] = crc.to_bytes(4, "big")
    return bytes(placed)


def place_in(memory: memoryview | bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` of a writable memory the base offset and leader epoch that it has in the log."""
    _OFFSET.pack_into(memory, position, base_offset)
    _EPOCH.pack_into(memory, position + _LENGTH_END, leader_epoch)


def with_create_time(header: BatchHeader, batch: Buffer) -> tuple[BatchHeader, bytes]:
    """Return a batch whose attributes do not say any more that a broker set its timestamps, with its header."""
    changed = bytearray(batch)
    changed[_ATTRIBUTES_END - 1] &= ~LOG_APPEND_TIME
    crc = _crc32c(memoryview(changed)[_CRC_END:])
    changed[_CRC_START:_CRC_END] = crc.to_bytes(4, "big")
    return header._replace(crc=crc, attributes=header.attributes & ~LOG_APPEND_TIME), bytes(changed)


def with_codec(header: BatchHeader, codec: Compression, payload: Buffer) -> bytes:
    """Return the batch of a header with another codec, and with its records as that codec compressed them.

    Args:
        header: of a batch whose base offset and leader epoch are yet to be set.
        codec: replaces the header's.
        payload: the records, compressed.
    """
    after_crc = _AFTER_CRC.pack(header.attributes & ~CODEC_MASK | codec, *header[6:])
    length = _MIN_LENGTH + len(payload)
    body = after_crc + bytes(payload)
    return _BEFORE_CRC.pack(header.base_offset, length, header.partition_leader_epoch, MAGIC, _crc32c(body)) + body


# --- records -----------------------------------------------------------------------------------------------------


def iter_records(
    batch: Buffer, *, max_bytes: int = MAX_DECOMPRESSED_BYTES, data: bytes | None = None
) -> Iterator[Record]:
    """Iterate over the records of one batch, whose CRC is not checked here.

    Args:
        batch: exactly one batch.
        max_bytes: the largest allowed size of the decompressed records.
        data: the decompressed records, if the caller has them already.

    Raises:
        CorruptRecordError: CORRUPT_MESSAGE if the records cannot be decompressed, MESSAGE_TOO_LARGE if they decompress
            to more than `max_bytes`, INVALID_RECORD if they are malformed or their number is not the header's. The
            iterator raises at the damaged record, after it has yielded the records before it.
    """
    header = read_header(batch)
    yield from iter_unpacked(header, unpack_records(header, batch, max_bytes) if data is None else data)


def unpack_records(header: BatchHeader, batch: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the decompressed records of one batch, for `iter_unpacked`.

    Args:
        header: the header of `batch`.
        batch: exactly one batch.
        max_bytes: the largest allowed size of the result.

    Raises:
        CorruptRecordError: as `iter_records`, for what it says of decompression.
    """
    body = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    if header.record_count <= 0 and not body:
        return b""
    return decompress(header.compression, body, max_bytes)


def iter_unpacked(header: BatchHeader, data: bytes) -> Iterator[Record]:
    """Iterate over the records of a batch that were decompressed; several times, if need be.

    Raises:
        CorruptRecordError: as `iter_records`, for what it says of malformed records.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    position, previous_delta, last_delta = 0, -1, header.last_offset_delta
    try:
        for _ in range(header.record_count):
            delta, timestamp_delta, key, value, headers, position = read_record(data, position)
            if not previous_delta < delta <= last_delta:
                raise InvalidRecordError(f"a record's offset delta of {delta} does not ascend, or exceeds {last_delta}")
            previous_delta = delta
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            if not _MIN_INT64 <= timestamp <= _MAX_INT64:
                raise InvalidRecordError(f"a record's timestamp of {timestamp} is out of range")
            yield Record(base_offset + delta, timestamp, key, value, headers)
    except IndexError:
        raise InvalidRecordError("a record ends after its batch") from None
    if position != len(data):
        raise InvalidRecordError(f"{len(data) - position} bytes follow the {header.record_count} records of a batch")


def iter_places(header: BatchHeader, data: bytes) -> Iterator[tuple[int, int]]:
    """Iterate over offsets and timestamps of the records of a batch that were decompressed, whose rest is not read.

    Raises:
        CorruptRecordError: as `iter_unpacked`, for what it says of these.
    """
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    position, previous_delta, last_delta = 0, -1, header.last_offset_delta
    try:
        for _ in range(header.record_count):
            delta, timestamp_delta, position = read_place(data, position)
            if not previous_delta < delta <= last_delta:
                raise InvalidRecordError(f"a record's offset delta of {delta} does not ascend, or exceeds {last_delta}")
            previous_delta = delta
            timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
            if not _MIN_INT64 <= timestamp <= _MAX_INT64:
                raise InvalidRecordError(f"a record's timestamp of {timestamp} is out of range")
            yield header.base_offset + delta, timestamp
    except IndexError:
        raise InvalidRecordError("a record ends after its batch") from None


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    last_offset_delta: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Build a batch.

    Args:
        records: in ascending order of their offsets, which start at or after `base_offset`.
        base_offset: the first offset of the batch.
        compression: the codec for the records.
        producer_id: the idempotent producer's id; −1 for a producer that is not idempotent.
        producer_epoch: the idempotent producer's epoch.
        base_sequence: the sequence number of the first record.
        leader_epoch: the epoch of the leader that appends the batch.
        transactional: whether the batch belongs to a transaction.
        control: whether the records are control records.
        log_append_time_ms: if given, the broker's time, which replaces the records' timestamps.
        last_offset_delta: the last offset relative to the first, if compaction has removed the last record.
        delete_horizon_ms: when compaction may drop the batch's tombstones (KIP-534).

    Raises:
        EncodeError: the offsets do not ascend from `base_offset`, or a field is out of range.
    """
    listed = list(records)
    base_timestamp = listed[0].timestamp_ms if listed else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    encoder = RecordsEncoder(base_offset, base_timestamp)
    for record in listed:
        encoder.add(record)
    return seal_batch(
        encoder,
        compress(compression, encoder.body) if listed else b"",
        base_offset=base_offset,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        transactional=transactional,
        control=control,
        log_append_time_ms=log_append_time_ms,
        last_offset_delta=last_offset_delta,
        delete_horizon_ms=delete_horizon_ms,
    )


def seal_batch(
    encoder: RecordsEncoder,
    payload: bytes,
    *,
    base_offset: int,
    compression: Compression,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    leader_epoch: int,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    last_offset_delta: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Build a batch of records that were encoded, and compressed, before.

    Args:
        encoder: encoded the records; relative to `delete_horizon_ms` if that is given.
        payload: its body, compressed.

    The other arguments are those of `build_batch`.

    Raises:
        EncodeError: a field is out of range.
    """
    max_timestamp = encoder.max_timestamp_ms
    attributes = compression | (_TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    if delete_horizon_ms is not None:
        attributes |= _DELETE_HORIZON
    try:
        after_crc = _AFTER_CRC.pack(
            attributes,
            last_offset_delta if last_offset_delta is not None else max(encoder.last_delta, 0),
            encoder.base_timestamp_ms,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            encoder.count,
        )
        crc = _crc32c(after_crc + payload)
        length = _MIN_LENGTH + len(payload)
        return _BEFORE_CRC.pack(base_offset, length, leader_epoch, MAGIC, crc) + after_crc + payload
    except struct.error as error:
        raise EncodeError(f"a field of a batch is out of range: {error}") from error
