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

from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from purgatorio.protocol.records import iter_batches, iter_records
from toy_connection import Leaders, Moved, ToyError, run

FETCH_VERSION = 12
MIB = 1024 * 1024
RETRY_SECONDS = 0.1


class Consumer:
    """Reads all partitions of a topic, each with its own polls."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._left = options.records if options.records is not None else sys.maxsize
        self._values: Counter[str] = Counter()

    async def run(self) -> int:
        """Read until there are enough records; returns the exit status, 1 if a value came more than once."""
        partitions = await Leaders(self._options.bootstrap, self._options.topic).find()
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(self._read(partition, enough)) for partition in partitions]
            await enough.wait()
            for reader in readers:
                reader.cancel()
        twice = sum(1 for times in self._values.values() if times > 1)
        print(f"{self._values.total()} records, {len(self._values)} different ones, {twice} more than once")
        return 1 if twice else 0

    async def _read(self, partition: int, enough: asyncio.Event) -> None:
        """Read one partition from its leader, and follow the leader when it moves."""
        leaders = Leaders(self._options.bootstrap, self._options.topic)
        offset = 0
        await leaders.find()
        try:
            while self._left > 0:
                try:
                    offset = await self._poll(leaders, partition, offset)
                except Moved:
                    await asyncio.sleep(RETRY_SECONDS)
                    await leaders.find()
            enough.set()
        finally:
            await leaders.close()

    async def _poll(self, leaders: Leaders, partition: int, offset: int) -> int:
        """Poll once; returns the next offset."""
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=MIB)
        request = FetchRequest(
            max_wait_ms=self._options.max_wait_ms,
            min_bytes=1,
            max_bytes=8 * MIB,
            topics=[FetchTopic(topic=self._options.topic, partitions=[asked])],
        )
        polled = time.perf_counter()
        response: FetchResponse = await leaders.request(partition, ApiKey.FETCH, FETCH_VERSION, request)
        poll_ms = (time.perf_counter() - polled) * 1000
        data = response.responses[0].partitions[0]
        error = ErrorCode(data.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return max(data.log_start_offset, 0)
        if error.retriable:
            raise Moved(error.name)
        if error:
            raise ToyError(f"{self._options.topic}-{partition}: {error.name}")
        return self._take(data, offset, poll_ms)

    def _take(self, data: PartitionData, offset: int, poll_ms: float) -> int:
        """Print the records; returns the next offset."""
        for header, batch in iter_batches(data.records or b"", allow_partial=True):
            for record in iter_records(batch):
                if record.offset < offset or self._left <= 0:
                    continue
                age_ms = time.time_ns() // 1_000_000 - record.timestamp_ms
                text = (record.value or b"").decode(errors="replace")
                print(
                    f"{self._options.topic}-{data.partition_index} offset {record.offset}: {text!r}, "
                    f"{age_ms} ms after it was sent, in a poll that waited {poll_ms:.1f} ms",
                    flush=True,
                )
                self._values[text] += 1
                self._left -= 1
            offset = max(offset, header.last_offset + 1)
        return offset


def main() -> int:
    """Parse the command line and consume until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Read a topic by long polls and time its records.")
    parser.add_argument(
        "--bootstrap", default="localhost:9092", help="host:port of brokers, comma-separated (localhost:9092)"
    )
    parser.add_argument("--topic", default="orders", help="the topic; created if it does not exist (orders)")
    parser.add_argument("--records", type=int, help="stop after this many records (default: read until Ctrl-C)")
    parser.add_argument(
        "--max-wait-ms", type=int, default=5_000, help="longest time that the broker holds a poll (5000)"
    )
    return run(Consumer(parser.parse_args()).run())


if __name__ == "__main__":
    raise SystemExit(main())
