"""Counts what a process holds: objects of the library and what their containers hold, tasks, files, memory."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple

_OPEN_FILES = Path("/proc/self/fd")


class Census(NamedTuple):
    """What a process held at one moment.

    Attributes:
        counts: numbers that have to return: the library's objects by class, the elements of each attribute that is a
            container, over all objects of the class, the tasks by name, and open files.
        rss_bytes: the memory of the process; 0 where it cannot be told.
    """

    counts: Counter[str]
    rss_bytes: int

    def growth(self, before: Census) -> dict[str, str]:
        """Return the counts that grew by more than chance, and from what to what."""
        return {
            name: f"{before.counts[name]} -> {count}"
            for name, count in sorted(self.counts.items())
            if count > before.counts[name] + SLACK and name not in BOUNDED and not name.startswith(CAUSES)
        }


BOUNDED = {
    "purgatorio.purgatory.delayed_operation.FinishedOperation": "a ring keeps the last ones of each broker",
    "purgatorio.broker.log.topic_partition.TopicPartition": "the keys of those",
    "purgatorio.broker.replica.fetching.delayed_fetch.FollowerKey": "the keys of those",
    "purgatorio.broker.metadata.delayed_decision.TopicKey": "the keys of those",
    "purgatorio.purgatory.timing_wheel.Level": "made when a timer needs them, few for any delay",
    "purgatorio.purgatory.timing_wheel.Level.buckets": "as many for each level",
    "purgatorio.purgatory.timing_wheel.Bucket": "those",
    "purgatorio.broker.metadata.image.Commit": "an image remembers the last 32",
    "purgatorio.broker.metrics.counters.RequestStats": "one for each API and version",
    "purgatorio.broker.metrics.counters.RequestStats.buckets": "as many for each of those",
    "purgatorio.broker.metrics.counters.BrokerMetrics.requests": "those",
}
"""What has a bound that a short soak does not reach, and why."""
CAUSES = "purgatorio.broker.causes.cause."
"""What the finished operations in those rings waited for: at most some of each."""
SLACK = 5
"""Heartbeats and fetches that are just under way."""


def take_census() -> Census:
    """Count, after the garbage was collected."""
    gc.collect()
    counts: Counter[str] = Counter()
    for thing in gc.get_objects():
        cls = type(thing)
        # isinstance would ask a proxy for the class of what it stands for.
        if not str(cls.__module__).startswith("purgatorio."):
            continue
        counts[f"{cls.__module__}.{cls.__qualname__}"] += 1
        for name, size in _containers(thing):
            counts[f"{cls.__module__}.{cls.__qualname__}.{name}"] += size
    for task in asyncio.all_tasks():
        counts[f"task {task.get_name() if not task.get_name().startswith('Task-') else task.get_coro()!r}"] += 1
    if _OPEN_FILES.exists():
        counts["open files"] = len(os.listdir(_OPEN_FILES))
    return Census(counts, _rss_bytes())


def _containers(thing: Any) -> Iterator[tuple[str, int]]:
    """Yield the attributes that are containers without a bound of their own, with their lengths."""
    for name, value in _attributes(thing):
        if isinstance(value, deque) and value.maxlen is not None:
            continue
        if isinstance(value, (Mapping, AbstractSet, list, deque, bytearray)):
            yield name, len(value)


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for cls in type(thing).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{cls.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                yield slot, getattr(thing, name)


def _rss_bytes() -> int:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what was freed
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
