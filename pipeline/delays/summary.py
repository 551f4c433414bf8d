"""The content of the report, read from the gold tables without Spark, which is faster for small tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from purgatorio.pipeline.delays import waits
from purgatorio.pipeline.delays.kinds import COLOURS
from purgatorio.pipeline.delays.tables import Tables

MOST_BINS: Final = 240
"""The limit of points in time in a plot; windows are merged until there are no more."""

_ORDER: Final = tuple(COLOURS)
_MEASURES: Final = ("window", "count", "expired", "checks", "wait_max_ms", "waits", "causes")
_SECOND_MS: Final = 1000
_HOUR_MS: Final = 3600 * _SECOND_MS
_WIDTHS_MS: Final = (
    *(each * _SECOND_MS for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(each * _HOUR_MS for each in (1, 2, 3, 6, 12, 24)),
)


@dataclass
class Measures:
    """The measures of a group of operations.

    Attributes:
        checks: the total number of checks of the condition.
        waits: counts by the least wait of a bucket, in ms.
        causes: counts by cause.
    """

    count: int = 0
    expired: int = 0
    checks: float = 0
    longest_ms: int = 0
    waits: dict[int, int] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)

    @property
    def expiry_rate(self) -> float:
        """The share of expired operations, from 0 to 1."""
        return self.expired / self.count if self.count else 0.0

    def percentile(self, share: float) -> float:
        """Return a percentile of the waits in ms; the group must have an operation."""
        return min(waits.percentile(self.waits, share), self.longest_ms)


class PartitionWaits(NamedTuple):
    """Operations of one kind at one partition."""

    kind: str
    topic: str
    partition: int


class Held(NamedTuple):
    """A broker, and a partition whose operations waited for it."""

    held_by: int
    topic: str
    partition: int


@dataclass
class Holding:
    """The number of operations that waited for a broker, and their total wait."""

    count: int = 0
    expired: int = 0
    total_ms: float = 0.0


@dataclass
class Summary:
    """The content of the report.

    Attributes:
        types: by kind, in a fixed order; every operation counts once.
        moments: by kind and time: the start of a bin of `bin_ms`, in ms since 1970; every operation counts once.
        places: by kind and partition; an operation under several partitions counts for each.
        clients: by client and kind; every operation counts once.
        holders: by broker and partition that waited for it.
        bad: the number of bad records, by reason.
        start_ms, end_ms: the start of the first window and the end of the last.
    """

    types: dict[str, Measures] = field(default_factory=dict)
    moments: dict[tuple[str, int], Measures] = field(default_factory=dict)
    places: dict[PartitionWaits, Measures] = field(default_factory=dict)
    clients: dict[tuple[str, str], Measures] = field(default_factory=dict)
    holders: dict[Held, Holding] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    start_ms: int = 0
    end_ms: int = 0
    bin_ms: int = _SECOND_MS

    @property
    def total(self) -> Measures:
        """All operations of all kinds; each counts once."""
        whole = Measures(
            count=sum(each.count for each in self.types.values()),
            expired=sum(each.expired for each in self.types.values()),
            longest_ms=max((each.longest_ms for each in self.types.values()), default=0),
        )
        for each in self.types.values():
            for least_ms, count in each.waits.items():
                whole.waits[least_ms] = whole.waits.get(least_ms, 0) + count
        return whole


def summarize(tables: Tables, width_ms: int) -> Summary:
    """Read the gold tables.

    Args:
        width_ms: the width of a window.
    """
    summary = Summary(bad=_bad(tables))
    operations = _read(tables, "operations", _MEASURES, "kind", "client")
    if operations is None or not operations.num_rows:
        return summary
    starts = _starts(operations)
    summary.start_ms, summary.end_ms = min(starts.values()), max(starts.values()) + width_ms
    summary.bin_ms = bin_width(summary.end_ms - summary.start_ms, width_ms)
    bins = {name: start - start % summary.bin_ms for name, start in starts.items()}
    operations = operations.append_column("bin", pa.array([bins[name] for name in operations["window"].to_pylist()]))
    by_type = _groups(operations, "kind")
    summary.types = {kind: by_type[kind,] for kind in sorted((kind for (kind,) in by_type), key=_rank)}
    summary.moments = {(kind, at): group for (kind, at), group in _groups(operations, "kind", "bin").items()}
    summary.clients = {(client, kind): each for (client, kind), each in _groups(operations, "client", "kind").items()}
    windows = _read(tables, "windows", _MEASURES, "kind", "topic", "partition")
    if windows is not None:
        placed = windows.filter(pc.is_valid(windows["topic"]))
        keyed = _groups(placed, "kind", "topic", "partition")
        summary.places = {PartitionWaits(*key): group for key, group in keyed.items()}
    summary.holders = _holders(tables)
    return summary


def bin_width(span_ms: int, width_ms: int) -> int:
    """Return the width of bins, a multiple of the windows' width, so that at most MOST_BINS cover the span."""
    for candidate in _WIDTHS_MS:
        if candidate % width_ms == 0 and span_ms <= candidate * MOST_BINS:
            return candidate
    return width_ms * -(-span_ms // (width_ms * MOST_BINS))


def start_of(window: str) -> int:
    """Return the start of a window in milliseconds since 1970, from its name."""
    at = datetime.strptime(window, "%Y-%m-%dT%H%M%SZ").replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _rank(kind: str) -> tuple[int, str]:
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), kind)


def _read(tables: Tables, table: str, columns: Sequence[str], *more: str) -> pa.Table | None:
    path = tables.path(table)
    if not path.exists():
        return None
    by_window = dataset.partitioning(pa.schema([("window", pa.string())]), flavor="hive")
    return dataset.dataset(path, format="parquet", partitioning=by_window).to_table([*columns, *more])


def _starts(rows: pa.Table) -> dict[str, int]:
    return {name: start_of(name) for name in pc.unique(rows["window"]).to_pylist()}


def _groups(rows: pa.Table, *keys: str) -> dict[tuple[Any, ...], Measures]:
    """Add up rows by keys."""
    found: dict[tuple[Any, ...], Measures] = defaultdict(Measures)
    sums = [("count", "sum"), ("expired", "sum"), ("checks", "sum"), ("wait_max_ms", "max")]
    for row in rows.group_by(list(keys)).aggregate(sums).to_pylist():
        group = found[tuple(row[key] for key in keys)]
        group.count, group.expired = row["count_sum"], row["expired_sum"]
        group.checks, group.longest_ms = row["checks_sum"], row["wait_max_ms_max"]
    for row in _exploded(rows, keys, "waits"):
        found[tuple(row[key] for key in keys)].waits[row["label"]] = row["n_sum"]
    for row in _exploded(rows, keys, "causes"):
        found[tuple(row[key] for key in keys)].causes[row["label"]] = row["n_sum"]
    return dict(found)


def _exploded(rows: pa.Table, keys: Sequence[str], column: str) -> list[dict[str, Any]]:
    """Add up the entries of a column of maps, by keys and label."""
    maps = rows[column].combine_chunks()
    if isinstance(maps, pa.ChunkedArray):
        maps = pa.concat_arrays(maps.chunks) if maps.num_chunks else pa.array([], maps.type)
    bounds = np.asarray(maps.offsets)
    parents = pa.array(np.repeat(np.arange(len(maps)), np.diff(bounds)))
    entries = slice(int(bounds[0]), int(bounds[-1]))
    told = rows.select(list(keys)).take(parents)
    told = told.append_column("label", maps.keys[entries]).append_column("n", maps.items[entries])
    added: list[dict[str, Any]] = told.group_by([*keys, "label"]).aggregate([("n", "sum")]).to_pylist()
    return added


def _holders(tables: Tables) -> dict[Held, Holding]:
    columns = ("held_by", "topic", "partition", "outcome", "count", "wait_total_ms")
    rows = _read(tables, "holders", columns)
    found: dict[Held, Holding] = defaultdict(Holding)
    if rows is None:
        return {}
    keys = ["held_by", "topic", "partition", "outcome"]
    placed = rows.filter(pc.is_valid(rows["topic"]))
    for row in placed.group_by(keys).aggregate([("count", "sum"), ("wait_total_ms", "sum")]).to_pylist():
        holding = found[Held(row["held_by"], row["topic"], row["partition"])]
        holding.count += row["count_sum"]
        holding.total_ms += row["wait_total_ms_sum"]
        holding.expired += row["count_sum"] if row["outcome"] == "expired" else 0
    return dict(found)


def _bad(tables: Tables) -> dict[str, int]:
    path = tables.path("bad_records")
    if not path.exists():
        return {}
    reasons = dataset.dataset(path, format="parquet").to_table(["reason"])["reason"]
    counts = {each["values"]: each["counts"] for each in pc.value_counts(reasons).to_pylist()}
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
