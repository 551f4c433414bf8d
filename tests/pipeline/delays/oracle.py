"""The gold tables in plain Python: a slow, simple reference."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import ceil, floor
from typing import Any

Rows = dict[tuple[Any, ...], dict[str, Any]]
Event = Mapping[str, Any]


def windows(events: Iterable[Event], width_ms: int) -> Rows:
    groups: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    for event in events:
        for topic, partition in _partitions(event):
            where = (_window(event, width_ms), event["purgatory"], event["kind"], topic, partition)
            groups[(*where, event["client"], event["broker"])].append(event)
    return {key: _measures(members) for key, members in groups.items()}


def operations(events: Iterable[Event], width_ms: int) -> Rows:
    groups: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    for event in events:
        groups[_window(event, width_ms), event["purgatory"], event["kind"], event["client"]].append(event)
    return {key: _measures(members) for key, members in groups.items()}


def holders(events: Iterable[Event], width_ms: int) -> Rows:
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for event in events:
        for topic, partition in _partitions(event):
            for broker in set(event["held_by"]):
                where = (_window(event, width_ms), event["purgatory"], event["kind"], topic, partition)
                groups[(*where, broker, event["outcome"])].append(_wait(event))
    return {key: {"count": len(waits), "wait_total_ms": sum(waits)} for key, waits in groups.items()}


def _measures(events: list[Event]) -> dict[str, Any]:
    waits = sorted(map(_wait, events))
    expired = sum(event["outcome"] == "expired" for event in events)
    checks = sum(event["checks"] for event in events)
    return {
        "count": len(events),
        "expired": expired,
        "expiry_rate": expired / len(events),
        "wait_p50_ms": percentile(waits, 0.5),
        "wait_p95_ms": percentile(waits, 0.95),
        "wait_p99_ms": percentile(waits, 0.99),
        "wait_max_ms": waits[-1],
        "wait_total_ms": sum(waits),
        "checks": checks,
        "checks_per_operation": checks / len(events),
        "outcomes": dict(Counter(event["outcome"] for event in events)),
        "causes": dict(Counter(event["cause"] for event in events)),
        "waits": dict(Counter(map(bucket, waits))),
    }


def percentile(ordered: list[int], share: float) -> float:
    """Return a percentile, interpolated between the two nearest ranks."""
    at = (len(ordered) - 1) * share
    low, high = ordered[floor(at)], ordered[ceil(at)]
    return low + (high - low) * (at - floor(at))


def bucket(wait_ms: int) -> int:
    """Return the least wait of a wait's bucket."""
    width = 1
    while wait_ms // width >= 64:
        width *= 2
    return wait_ms - wait_ms % width


def _wait(event: Event) -> int:
    return int(event["done_ms"] - event["parked_ms"])


def _window(event: Event, width_ms: int) -> datetime:
    return datetime.fromtimestamp(event["done_ms"] // width_ms * width_ms / 1000, UTC).replace(tzinfo=None)


def _partitions(event: Event) -> list[tuple[str | None, int | None]]:
    return sorted({(each["topic"], each["partition"]) for each in event["partitions"]}) or [(None, None)]
