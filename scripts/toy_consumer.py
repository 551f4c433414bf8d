"""Reads a topic from its beginning, waits for more by long polls, and says how long each record took to get here.

.venv/bin/python scripts/toy_consumer.py
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.records import iter_batches, iter_records
from toy_connection import Connection, ToyError, find_leaders, run

FETCH_VERSION = 12
MIB = 1024 * 1024


async def follow(address: tuple[str, int], partitions: list[int], options: argparse.Namespace, left: list[int]) -> None:
    """Fetch the partitions that one broker leads, for as long as records are wanted."""
    connection = await Connection.open(*address)
    offsets = dict.fromkeys(partitions, 0)
    while left[0] > 0:
        request = FetchRequest(
            max_wait_ms=options.max_wait_ms,
            min_bytes=1,
            max_bytes=8 * MIB,
            topics=[
                FetchTopic(
                    topic=options.topic,
                    partitions=[
                        FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=MIB)
                        for p, offset in offsets.items()
                    ],
                )
            ],
        )
        polled = time.perf_counter()
        response: FetchResponse = await connection.request(ApiKey.FETCH, FETCH_VERSION, request)
        poll_ms = (time.perf_counter() - polled) * 1000
        for data in response.responses[0].partitions:
            partition = data.partition_index
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                offsets[partition] = max(data.log_start_offset, 0)
            elif data.error_code:
                raise ToyError(f"{options.topic}-{partition}: {ErrorCode(data.error_code).name}")
            for header, batch in iter_batches(data.records or b"", allow_partial=True):
                for record in iter_records(batch):
                    if record.offset < offsets[partition] or left[0] <= 0:
                        continue
                    age_ms = time.time_ns() // 1_000_000 - record.timestamp_ms
                    text = (record.value or b"").decode(errors="replace")
                    print(
                        f"{options.topic}-{partition} offset {record.offset}: {text!r}, {age_ms} ms after it was sent, "
                        f"in a poll that waited {poll_ms:.1f} ms",
                        flush=True,
                    )
                    left[0] -= 1
                offsets[partition] = max(offsets[partition], header.last_offset + 1)
    await connection.close()


async def consume(options: argparse.Namespace) -> int:
    """Read from every broker that leads a partition, until there are enough records; the exit status."""
    leaders = await find_leaders(options.bootstrap, options.topic, create=True)
    left = [options.records if options.records is not None else sys.maxsize]
    async with asyncio.TaskGroup() as tasks:
        for address in sorted(set(leaders.values())):
            partitions = sorted(partition for partition, leader in leaders.items() if leader == address)
            tasks.create_task(follow(address, partitions, options, left))
    return 0


def main() -> int:
    """Parse the command line and consume until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Read a topic by long polls and say how long each record took.")
    parser.add_argument(
        "--bootstrap", default="localhost:9092", help="host:port of brokers, comma-separated (localhost:9092)"
    )
    parser.add_argument("--topic", default="orders", help="created if there is none (default: orders)")
    parser.add_argument("--records", type=int, help="stop after this many (default: go on until Ctrl-C)")
    parser.add_argument(
        "--max-wait-ms", type=int, default=5_000, help="how long the broker may keep a poll waiting (default: 5000)"
    )
    return run(consume(parser.parse_args()))


if __name__ == "__main__":
    raise SystemExit(main())
