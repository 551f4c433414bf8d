"""The committed records of a replica, read without a client: first what only the tier has, then what is in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, Literal, get_args

from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.log.transactions import AbortedTxn
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import BatchHeader, iter_batches, iter_records

IsolationLevel = Literal["read_uncommitted", "read_committed"]
"""Kafka's `isolation.level`: whether a reader gets the records of aborted and of open transactions."""
ISOLATION_LEVELS: Final[tuple[str, ...]] = get_args(IsolationLevel)
WHOLE_LOG: Final = 1 << 62
"""More bytes than a log has."""


def check_isolation_level(name: str) -> None:
    """Refuse what is no isolation level of Kafka's.

    Raises:
        ValueError: it is none.
    """
    if name not in ISOLATION_LEVELS:
        known = " or ".join(ISOLATION_LEVELS)
        raise ValueError(f"isolation_level is {known}, not {name!r}{nearest(name, ISOLATION_LEVELS)}")


async def read_runs(
    replica: Partition, tiering: Tiering | None, isolation_level: IsolationLevel, start_offset: int
) -> AsyncIterator[Iterator[Record]]:
    """Yield the records of a leader as `read_records` does, by and by: those of each part that is read from the tier.

    Raises:
        PartitionError: a part cannot be read, or it is not known which transactions were aborted.
    """
    log = replica.log
    while True:
        start_offset = max(start_offset, log.log_start_offset)
        is_stable = isolation_level == "read_committed"
        end_offset = replica.last_stable_offset if is_stable else replica.high_watermark
        if tiering is None or start_offset >= min(log.local_start_offset, end_offset):
            break
        part = await tiering.part_read(replica, start_offset)
        batches, next_offset = part.batches(start_offset, WHOLE_LOG, end_offset, min_one=True)
        assert next_offset > start_offset, "the part has the offset"
        aborted: dict[int, list[AbortedTxn]] = {}
        if is_stable:
            tiering.aborted(replica, start_offset, next_offset)  # which finds out whether all are known
            known, _ = tiering.remote_of(replica).segments.aborted(start_offset, next_offset)
            aborted = _by_producer((*known, *log.producers.aborted))
        yield _committed([batches], aborted, start_offset)
        start_offset = next_offset
    yield read_records(replica, isolation_level, start_offset)


def read_records(replica: Partition, isolation_level: IsolationLevel, start_offset: int = 0) -> Iterator[Record]:
    """Yield the records of a leader up to its high watermark or, with read_committed, its last stable offset (KIP-98).

    With read_committed those of aborted transactions are left out.

    Args:
        start_offset: where to begin; the log's start in memory if that is behind it.
    """
    log, stable = replica.log, isolation_level == "read_committed"
    end_offset = replica.last_stable_offset if stable else replica.high_watermark
    start_offset = max(start_offset, log.local_start_offset)
    if start_offset >= end_offset:
        return
    read = log.read(start_offset, max_bytes=WHOLE_LOG, end_offset=end_offset)
    aborted = _by_producer(log.producers.aborted) if stable else {}
    yield from _committed(read.parts, aborted, start_offset)


def _committed(parts: Iterable[Buffer], aborted: dict[int, list[AbortedTxn]], start_offset: int) -> Iterator[Record]:
    for part in parts:
        for header, batch in iter_batches(part):
            if not header.is_control and not _is_aborted(header, aborted):
                yield from (each for each in iter_records(batch) if each.offset >= start_offset)


def _by_producer(transactions: Iterable[AbortedTxn]) -> dict[int, list[AbortedTxn]]:
    found: dict[int, list[AbortedTxn]] = {}
    for each in transactions:
        found.setdefault(each.producer_id, []).append(each)
    return found


def _is_aborted(header: BatchHeader, aborted: dict[int, list[AbortedTxn]]) -> bool:
    return header.is_transactional and any(
        each.first_offset <= header.base_offset < each.marker_offset for each in aborted.get(header.producer_id, ())
    )
