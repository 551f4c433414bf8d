"""Fetch and ListOffsets: records from an offset on, and which of them a reader is to have."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from purgatorio.client.client import KafkaClient, Partition, by_topic, check
from purgatorio.protocol.end_marker import read_end_marker
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import BatchHeader, iter_batches, iter_records

EARLIEST, LATEST = -2, -1
MAX_BYTES: Final = 1024 * 1024


async def list_offset(
    client: KafkaClient[Any],
    broker_id: int,
    tp: Partition,
    timestamp: int,
    *,
    committed: bool = False,
    leader_epoch: int = -1,
) -> int:
    """Return the offset of a timestamp, EARLIEST or LATEST; with `committed` the latest is the last stable one.

    Raises:
        Refused: the broker refuses it.
        FAILURES: it does not answer.
    """
    found = await list_offsets(client, broker_id, {tp: timestamp}, committed=committed, leader_epoch=leader_epoch)
    code, offset = found[tp]
    check(code)
    return offset


async def list_offsets(
    client: KafkaClient[Any],
    broker_id: int,
    timestamps: Mapping[Partition, int],
    *,
    committed: bool = False,
    leader_epoch: int = -1,
) -> dict[Partition, tuple[int, int]]:
    """Return error code and offset of each partition's timestamp, as `list_offset`; -1: no record is as young.

    Raises:
        FAILURES: the broker does not answer.
    """
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(partition_index=index, current_leader_epoch=leader_epoch, timestamp=timestamp)
                for index, timestamp in of_topic.items()
            ],
        )
        for topic, of_topic in by_topic(timestamps).items()
    ]
    answer = await client.ask(broker_id, ListOffsetsRequest(isolation_level=int(committed), topics=topics))
    return {
        (topic.name, each.partition_index): (each.error_code, each.offset)
        for topic in answer.topics
        for each in topic.partitions
    }


def fetch_request(tp: Partition, offset: int, **options: Any) -> FetchRequest:
    """Build the request for records of one partition; for the options see `fetch_request_of`."""
    return fetch_request_of({tp: offset}, **options)


def fetch_request_of(
    offsets: Mapping[Partition, int],
    *,
    max_wait_ms: int,
    min_bytes: int = 1,
    max_bytes: int = MAX_BYTES,
    committed: bool = False,
) -> FetchRequest:
    """Build the request for records of partitions, each from an offset on; the broker waits for `min_bytes`."""
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
                for index, offset in of_topic.items()
            ],
        )
        for topic, of_topic in by_topic(offsets).items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        topics=topics,
    )


async def fetch(client: KafkaClient[Any], broker_id: int, tp: Partition, offset: int, **options: Any) -> PartitionData:
    """Return what a broker has from an offset on, with the error code; for the options see `fetch_request`.

    Raises:
        FAILURES: it does not answer.
    """
    answer = await client.ask(broker_id, fetch_request(tp, offset, **options))
    data: PartitionData = answer.responses[0].partitions[0]
    return data


def batches(data: PartitionData) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
    """Iterate over the batches of a response, each with whether its records are for the reader.

    They are not in control batches, and not in those of the aborted transactions that the response lists (KIP-98).
    """
    to_come = deque(sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ()))
    aborted = set[int]()  # the producers of the aborted transactions that have begun
    # Decoded records are one view into the response.
    for header, batch in iter_batches(cast("Buffer | None", data.records) or b"", allow_partial=True):
        while to_come and to_come[0][0] <= header.last_offset:
            aborted.add(to_come.popleft()[1])
        if header.is_control and (marker := read_end_marker(batch)) is not None and not marker.committed:
            aborted.discard(header.producer_id)
        is_aborted = header.is_transactional and header.producer_id in aborted
        yield header, batch, not (header.is_control or is_aborted)


def read(data: PartitionData, offset: int) -> tuple[list[Record], int]:
    """Return the reader's records of a response from an offset on, and the offset to fetch from next."""
    found: list[Record] = []
    end_offset = offset
    for header, batch, is_visible in batches(data):
        if is_visible:
            found += [record for record in iter_records(batch) if record.offset >= offset]
        end_offset = max(end_offset, header.last_offset + 1)
    return found, end_offset
