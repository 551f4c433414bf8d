"""Sends records one at a time and prints how long each acknowledgement took.

.venv/bin/python scripts/toy_producer.py --acks all --records 10

With --retry it never gives a record up: it finds the new leader and sends the record again, as the same producer with
the same sequence number, so that a broker that already has the record does not append it twice.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import closing

from purgatorio.client.client import KafkaClient, Unavailable
from purgatorio.client.link import StreamLink
from purgatorio.client.produce import NO_PRODUCER, Attempt, batch_of, produce, produce_request
from purgatorio.protocol.errors import ErrorCode
from toy_connection import new_client, parser, run

ACKS = {"all": -1, "-1": -1, "1": 1}


async def send_all(options: argparse.Namespace) -> int:
    """Send records to the partitions of the topic in turn; returns the exit status, 1 if one was refused."""
    failures = 0
    with closing(new_client(options, options.timeout_ms)) as client:
        partitions = await client.partitions(options.topic)
        producer = await client.producer_id() if options.retry else NO_PRODUCER
        for number in range(options.records):
            turn, nth = divmod(number, len(partitions))
            tp = options.topic, partitions[nth]
            started = time.perf_counter()
            wall_ms = time.time_ns() // 1_000_000
            batch = batch_of([f"record {number}".encode()], wall_ms, producer=producer, sequence=turn)
            attempt = await send(client, tp, batch, options)
            waited_ms = (time.perf_counter() - started) * 1000
            failures += attempt.code is not ErrorCode.NONE
            outcome = attempt.reason if attempt.code else "acknowledged"
            print(f"{tp[0]}-{tp[1]} offset {attempt.offset}: {outcome} after {waited_ms:.1f} ms", flush=True)
            await asyncio.sleep(options.interval_ms / 1000)
    return 1 if failures else 0


async def send(
    client: KafkaClient[StreamLink], tp: tuple[str, int], batch: bytes, options: argparse.Namespace
) -> Attempt:
    """Send a batch; with --retry, again and again until it is acknowledged."""
    request = produce_request(tp, batch, acks=ACKS[options.acks], timeout_ms=options.timeout_ms)
    while True:
        attempt = await produce(client, tp, lambda: request)
        if options.retry and attempt.code.retriable:
            await client.back_off()
            await client.partitions(options.topic)
        elif attempt.code is ErrorCode.NETWORK_EXCEPTION:
            raise Unavailable(attempt.reason)
        else:
            return attempt


def main() -> int:
    """Parse the command line and produce."""
    options = parser("Send records one at a time and time their acknowledgements.")
    options.add_argument("--acks", choices=list(ACKS), default="all", help="replicas that must have a record (all)")
    options.add_argument("--records", type=int, default=10, help="number of records (10)")
    options.add_argument("--interval-ms", type=int, default=0, help="pause between two records (0)")
    options.add_argument("--retry", action="store_true", help="send each record until it is acknowledged, once")
    options.add_argument(
        "--timeout-ms", type=int, default=30_000, help="longest time that the leader waits for its followers (30000)"
    )
    return run(send_all, options.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
