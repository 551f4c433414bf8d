"""Sends records one at a time and says how long each acknowledgement took.

.venv/bin/python scripts/toy_producer.py --acks all --records 10
"""

from __future__ import annotations

import argparse
import time

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records import Record, build_batch
from toy_connection import Connection, find_leaders, run

PRODUCE_VERSION = 9
ACKS = {"all": -1, "-1": -1, "1": 1}


async def produce(options: argparse.Namespace) -> int:
    """Send the records round the partitions; the exit status is 1 if one was refused."""
    leaders = await find_leaders(options.bootstrap, options.topic, create=True)
    connections = {address: await Connection.open(*address) for address in sorted(set(leaders.values()))}
    failures = 0
    for number in range(options.records):
        partition = sorted(leaders)[number % len(leaders)]
        value = f"record {number}".encode()
        batch = build_batch([Record(0, time.time_ns() // 1_000_000, None, value, ())])
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=ACKS[options.acks],
            timeout_ms=options.timeout_ms,
            topic_data=[TopicProduceData(name=options.topic, partition_data=[data])],
        )
        started = time.perf_counter()
        response: ProduceResponse = await connections[leaders[partition]].request(
            ApiKey.PRODUCE, PRODUCE_VERSION, request
        )
        waited_ms = (time.perf_counter() - started) * 1000
        answer = response.responses[0].partition_responses[0]
        error = ErrorCode(answer.error_code)
        failures += error != ErrorCode.NONE
        outcome = "acknowledged" if error == ErrorCode.NONE else error.name
        print(
            f"{options.topic}-{partition} offset {answer.base_offset}: {outcome} after {waited_ms:.1f} ms", flush=True
        )
    for connection in connections.values():
        await connection.close()
    return 1 if failures else 0


def main() -> int:
    """Parse the command line and produce."""
    parser = argparse.ArgumentParser(description="Send records one at a time and time their acknowledgements.")
    parser.add_argument(
        "--bootstrap", default="localhost:9092", help="host:port of brokers, comma-separated (localhost:9092)"
    )
    parser.add_argument("--topic", default="orders", help="created if there is none (default: orders)")
    parser.add_argument("--acks", choices=list(ACKS), default="all", help="who must have a record (default: all)")
    parser.add_argument("--records", type=int, default=10, help="how many records to send (default: 10)")
    parser.add_argument(
        "--timeout-ms", type=int, default=30_000, help="how long the broker may wait for its followers (default: 30000)"
    )
    return run(produce(parser.parse_args()))


if __name__ == "__main__":
    raise SystemExit(main())
