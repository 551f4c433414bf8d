"""Sends records one at a time and prints how long each acknowledgement took.

.venv/bin/python scripts/toy_producer.py --acks all --records 10

With --retry it never gives a record up: it finds the new leader and sends the record again, as the same producer with
the same sequence number, so that a broker that already has the record does not append it twice.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from purgatorio.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from toy_connection import Leaders, Moved, ToyError, open_any, run

PRODUCE_VERSION = 9
INIT_PRODUCER_ID_VERSION = 4
RETRY_SECONDS = 0.1
ACKS = {"all": -1, "-1": -1, "1": 1}


class Producer:
    """Sends records to the partitions of a topic in turn."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._leaders = Leaders(options.bootstrap, options.topic)
        self._producer_id = -1
        self._sequences: dict[int, int] = {}

    async def run(self) -> int:
        """Send all records; returns the exit status, 1 if a record was refused."""
        options = self._options
        partitions = await self._leaders.find()
        if options.retry:
            self._producer_id = await self._identify()
        failures = 0
        for number in range(options.records):
            partition = partitions[number % len(partitions)]
            started = time.perf_counter()
            answer = await self._send(partition, f"record {number}".encode())
            waited_ms = (time.perf_counter() - started) * 1000
            error = ErrorCode(answer.error_code)
            failures += error != ErrorCode.NONE
            outcome = "acknowledged" if error == ErrorCode.NONE else error.name
            where = f"{options.topic}-{partition} offset {answer.base_offset}"
            print(f"{where}: {outcome} after {waited_ms:.1f} ms", flush=True)
            await asyncio.sleep(options.interval_ms / 1000)
        await self._leaders.close()
        return 1 if failures else 0

    async def _identify(self) -> int:
        """Get a producer id, by which brokers recognise duplicates."""
        connection = await open_any(self._options.bootstrap)
        request = InitProducerIdRequest(transactional_id=None)
        response: InitProducerIdResponse = await connection.request(
            ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request
        )
        await connection.close()
        if response.error_code:
            raise ToyError(f"no producer id: {ErrorCode(response.error_code).name}")
        return response.producer_id

    async def _send(self, partition: int, value: bytes) -> PartitionProduceResponse:
        """Send one record; with --retry, again and again until it is acknowledged."""
        request = self._request(partition, value)
        while True:
            try:
                response: ProduceResponse = await self._leaders.request(
                    partition, ApiKey.PRODUCE, PRODUCE_VERSION, request
                )
            except Moved as moved:
                if not self._options.retry:
                    raise ToyError(str(moved)) from moved
            else:
                answer = response.responses[0].partition_responses[0]
                if not (self._options.retry and ErrorCode(answer.error_code).retriable):
                    self._sequences[partition] = self._sequences.get(partition, 0) + 1
                    return answer
            await asyncio.sleep(RETRY_SECONDS)
            await self._leaders.find()

    def _request(self, partition: int, value: bytes) -> ProduceRequest:
        idempotent = self._producer_id >= 0
        batch = build_batch(
            [Record(0, time.time_ns() // 1_000_000, None, value, ())],
            producer_id=self._producer_id,
            producer_epoch=0 if idempotent else -1,
            base_sequence=self._sequences.get(partition, 0) if idempotent else -1,
        )
        data = PartitionProduceData(index=partition, records=batch)
        return ProduceRequest(
            acks=ACKS[self._options.acks],
            timeout_ms=self._options.timeout_ms,
            topic_data=[TopicProduceData(name=self._options.topic, partition_data=[data])],
        )


def main() -> int:
    """Parse the command line and produce."""
    parser = argparse.ArgumentParser(description="Send records one at a time and time their acknowledgements.")
    parser.add_argument(
        "--bootstrap", default="localhost:9092", help="host:port of brokers, comma-separated (localhost:9092)"
    )
    parser.add_argument("--topic", default="orders", help="the topic; created if it does not exist (orders)")
    parser.add_argument(
        "--acks",
        choices=list(ACKS),
        default="all",
        help="replicas that must have a record (all)",
    )
    parser.add_argument("--records", type=int, default=10, help="number of records (10)")
    parser.add_argument("--interval-ms", type=int, default=0, help="pause between two records (0)")
    parser.add_argument("--retry", action="store_true", help="send each record until it is acknowledged, once")
    parser.add_argument(
        "--timeout-ms", type=int, default=30_000, help="longest time that the leader waits for its followers (30000)"
    )
    return run(Producer(parser.parse_args()).run())


if __name__ == "__main__":
    raise SystemExit(main())
