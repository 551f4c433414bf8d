"""Share partitions for the page: the records from start to end offset as runs of equal state, at a bounded cost."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.causes.words import MAX_SHOWN
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.share.in_flight import InFlightBatch, RecordsInFlight
from purgatorio.broker.share.share_partition import SharePartition

SHARES: Final = 40
"""Share partitions on the page."""
SHARES_LOOKED_AT: Final = 1_000
"""Share partitions of each broker among which those are chosen: half a millisecond."""
RUNS: Final = 40
"""Runs of each share partition."""
BATCHES: Final = 100
"""Batches of each that are looked at for them: some milliseconds for all together."""


def read_shares_for_page(brokers: Iterable[Broker]) -> list[Answer]:
    """Return the most interesting share partitions: those with records in flight first, then by name."""
    found = chain.from_iterable(
        ((broker, share) for share in islice(broker.led_shares.partitions, SHARES_LOOKED_AT)) for broker in brokers
    )
    return [_share(broker, share) for broker, share in heapq.nsmallest(SHARES, found, key=lambda each: _rank(each[1]))]


def merged_shares(shares: Iterable[Answer]) -> list[Answer]:
    """Return the share partitions of several processes as one with all their brokers has them."""
    return heapq.nsmallest(
        SHARES, shares, key=lambda row: (not row["runs"], row["group"], row["topic"], row["partition"])
    )


def _rank(share: SharePartition) -> Any:
    return not len(share.in_flight), share.key.group_id, *share.tp


def _share(broker: Broker, share: SharePartition) -> Answer:
    """Return a share partition; `lag` is None if the replica is gone.

    `further_count`: the offsets behind the last run up to the end offset.
    """
    flight, replica = share.in_flight, broker.replica(share.tp)
    runs = list(islice(_runs(islice(flight, BATCHES), broker.led_shares.now_ms() if len(flight) else 0), RUNS))
    end_offset = runs[-1]["last"] if runs else flight.start_offset - 1
    high_watermark = None if replica is None else replica.high_watermark
    return {
        "group": share.key.group_id[:MAX_SHOWN],
        "topic": share.tp.topic,
        "partition": share.tp.partition,
        "leader": broker.broker_id,
        "state": share.state.value,
        "start_offset": flight.start_offset,
        "end_offset": flight.end_offset,
        "lag": None if high_watermark is None else _lag(flight, high_watermark),
        "new_count": max(0, (high_watermark or 0) - flight.end_offset - 1),
        "runs": runs,
        "further_count": flight.end_offset - end_offset,
    }


def _lag(flight: RecordsInFlight, high_watermark: int) -> int:
    return max(0, high_watermark - flight.start_offset - flight.complete_count)


def _runs(batches: Iterable[InFlightBatch], now_ms: int) -> Iterator[Answer]:
    """Join neighbours that are alike but for their locks; the time left is that of the first lock to run out."""
    last: Answer | None = None
    for batch in batches:
        run = _run(batch, now_ms)
        if last is not None and all(last[name] == run[name] for name in _ALIKE):
            last["last"] = run["last"]
            if run["left_ms"] is not None and run["left_ms"] < last["left_ms"]:
                last["left_ms"], last["lock"] = run["left_ms"], run["lock"]
            continue
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last


_ALIKE: Final = ("state", "becomes", "deliveries", "member")


def _run(batch: InFlightBatch, now_ms: int) -> Answer:
    lock = batch.lock
    return {
        "first": batch.first_offset,
        "last": batch.last_offset,
        "state": "hole" if batch.is_hole else batch.state.name.lower(),
        "becomes": None if batch.target is None else batch.target.name.lower(),
        "deliveries": batch.delivery_count,
        "member": None if lock is None else lock.member_id[:MAX_SHOWN],
        "left_ms": None if lock is None else max(0, lock.deadline_ms - now_ms),
        "lock": None if lock is None else lock.id,
    }
