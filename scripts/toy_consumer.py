"""Reads a topic from its beginning, waits for more by long polls, and prints how long each record was under way.

.venv/bin/python scripts/toy_consumer.py

It follows the leaders when they move. With --records it stops after that many, and prints how many values came more
than once.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from contextlib import closing

from purgatorio.client.client import NETWORK_ERRORS, check
from purgatorio.client.fetch import fetch, read
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from toy_connection import new_client, parser, run


async def consume(options: argparse.Namespace) -> int:
    """Read until there are enough records; returns the exit status, 1 if a value came more than once."""
    values, enough = Counter[str](), asyncio.Event()
    partitions = await new_client(options, options.max_wait_ms).partitions(options.topic)
    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(read_one(options, each, values, enough)) for each in partitions]
        await enough.wait()
        for reader in readers:
            reader.cancel()
    twice = sum(1 for times in values.values() if times > 1)
    print(f"{values.total()} records, {len(values)} different ones, {twice} more than once")
    return 1 if twice else 0


async def read_one(options: argparse.Namespace, partition: int, values: Counter[str], enough: asyncio.Event) -> None:
    """Read one partition from its leader by polls of its own, and follow the leader when it moves."""
    tp, offset = (options.topic, partition), 0
    with closing(new_client(options, options.max_wait_ms)) as client:
        await client.partitions(options.topic)
        while not enough.is_set():
            polled = time.perf_counter()
            try:
                data = await fetch(client, client.leaders[tp].broker_id, tp, offset, max_wait_ms=options.max_wait_ms)
                error = ErrorCode(data.error_code)
            except NETWORK_ERRORS:
                error = ErrorCode.NETWORK_EXCEPTION
            poll_ms = (time.perf_counter() - polled) * 1000
            if error is ErrorCode.OFFSET_OUT_OF_RANGE:
                offset = max(data.log_start_offset, 0)
            elif error.retriable:
                await client.back_off()
                await client.partitions(options.topic)
            else:
                check(error)
                records, offset = read(data, offset)
                for record in records[: options.records - values.total()]:
                    print(
                        f"{tp[0]}-{tp[1]} {described(record, values)}, in a poll that waited {poll_ms:.1f} ms",
                        flush=True,
                    )
                if values.total() >= options.records:
                    enough.set()


def described(record: Record, values: Counter[str]) -> str:
    """Count a record, and describe it."""
    age_ms, text = time.time_ns() // 1_000_000 - record.timestamp_ms, (record.value or b"").decode(errors="replace")
    values[text] += 1
    return f"offset {record.offset}: {text!r}, {age_ms} ms after it was sent"


def main() -> int:
    """Parse the command line and consume until Ctrl-C."""
    options = parser("Read a topic by long polls and time its records.")
    options.add_argument(
        "--records", type=int, default=sys.maxsize, help="stop after this many records (default: read until Ctrl-C)"
    )
    options.add_argument(
        "--max-wait-ms", type=int, default=5_000, help="longest time that the broker holds a poll (5000)"
    )
    return run(consume, options.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
