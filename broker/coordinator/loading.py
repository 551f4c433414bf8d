"""How a shard is loaded: its partition's records are replayed, from the log's start to its end, in steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.logger import get_logger
from purgatorio.protocol.end_marker import EndMarker, read_end_marker
from purgatorio.protocol.errors import CorruptRecordError, DecodeError
from purgatorio.protocol.record_decoding import read_key_and_value
from purgatorio.protocol.records import BatchHeader, iter_batches, unpack_records

logger = get_logger(__name__)

READ_BYTES: Final = 256 * 1024
"""The most bytes that are read at once, unless one batch is larger."""
WORK_PER_STEP: Final = 500
"""The most work of one step: 3 ms. A committed offset is 1."""
BATCH_WORK: Final = 1
"""The work of a batch beside its records."""


class Replay(Protocol):
    """Applies the records of a log to one shard, in the log's order."""

    def record(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        """Apply a record of this batch; returns its work, in the unit of `WORK_PER_STEP`.

        Raises:
            DecodeError: the record is malformed; it is logged and skipped.
        """
        ...

    def ended(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Apply the marker that ends the transaction of the batch's producer."""
        ...


def load_steps(tp: TopicPartition, log: Log, replay: Replay) -> Iterator[None]:
    """Replay the log of a partition, in steps. What cannot be read is skipped and logged."""
    offset = log.log_start_offset
    work = 0
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=READ_BYTES, end_offset=log.log_end_offset)
        if not read.parts:
            break
        for header, batch in iter_batches(b"".join(read.parts)):
            work += BATCH_WORK
            offset = header.last_offset + 1
            for cost in _replay_batch(tp, header, batch, replay):
                work += cost
                if work >= WORK_PER_STEP:
                    work = 0
                    yield
        # The log may have been compacted meanwhile, which leaves a gap; or deleted up to a new start.
        offset = max(offset, log.log_start_offset)


def _replay_batch(tp: TopicPartition, header: BatchHeader, batch: memoryview, replay: Replay) -> Iterator[int]:
    """Replay the records of one batch; yields the work of each."""
    try:
        if header.is_control:
            marker = read_end_marker(batch)
            if marker is not None:
                replay.ended(header, marker)
            return
        data = unpack_records(header, batch)
        position = 0
        for _ in range(header.record_count):
            key, value, position = read_key_and_value(data, position)
            try:
                cost = replay.record(header, key, value)
            except DecodeError as error:
                logger.warning("a coordinator's record was skipped", partition=str(tp), why=str(error))
                cost = 1
            yield cost
    except (CorruptRecordError, IndexError) as error:
        logger.error("a coordinator's batch was skipped", partition=str(tp), why=str(error))
