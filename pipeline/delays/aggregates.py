"""The gold tables: aggregates of the events of some windows, made from all events of these windows at once.

``windows``: a row for each window, purgatory, kind, topic, partition, client and broker. An operation that was watched
under several partitions counts once for each of them, so rows of different partitions must not be added up; topic and
partition are null for an operation without partitions.

``operations``: a row for each window, purgatory, kind and client, in which every operation counts once.

Both have these measures:

* `count`, `expired`, `expiry_rate` (from 0 to 1), `outcomes` and `causes` (counts by each), `checks` (the total number
  of checks of the condition) and `checks_per_operation`;
* `wait_p50_ms`, `wait_p95_ms`, `wait_p99_ms`: exact, interpolated between neighbours; `wait_max_ms`, `wait_total_ms`;
* `waits`: a histogram: counts by the least wait of a bucket in ms. Percentiles of several rows cannot be computed from
  the percentiles of each row, but from the sum of their histograms. A bucket is one millisecond wide below 64 ms, and
  at most a 32nd of its least wait above.

``holders``: a row for each window, purgatory, kind, topic, partition, broker that operations waited for (`held_by`) and
outcome, with `count` and `wait_total_ms`; an operation that waited for two brokers counts under each.

Totals of milliseconds and checks are doubles: exact up to 2^53, and no event can make them overflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW_KEYS: Final = ("window", "window_ms", "purgatory", "kind", "topic", "partition", "client", "broker")
OPERATION_KEYS: Final = ("window", "window_ms", "purgatory", "kind", "client")
HOLDER_KEYS: Final = ("window", "window_ms", "purgatory", "kind", "topic", "partition", "held_by", "outcome")

_CELL_KEYS: Final = (
    *("window", "window_ms", "purgatory", "kind", "client", "broker", "partitions"),
    *("held_by", "outcome", "cause", "wait_ms"),
)
_EXACT_BITS: Final = 6
"""The number of binary digits that a bucket keeps of a wait: 64 values, then 32 for each doubling."""
_BUCKET: Final = (
    f"shiftleft(shiftright(wait_ms, greatest(length(bin(wait_ms)) - {_EXACT_BITS}, 0)), "
    f"greatest(length(bin(wait_ms)) - {_EXACT_BITS}, 0))"
)


def cells(events: DataFrame, tasks: int) -> DataFrame:
    """Group events that are equal in all keys of the tables: `n` is their number, `checks` the sum of their checks.

    All tables are made from these groups, which are far fewer than the events. All groups of a window are in one
    partition, so that the tables need no further shuffle.

    Args:
        tasks: the number of partitions.
    """
    return (
        events.groupBy(*_CELL_KEYS)
        .agg(_sql("count(*)", "n"), _sql("sum(cast(checks AS DOUBLE))", "checks"))
        .repartition(tasks, "window")
    )


def windows(cells_: DataFrame) -> DataFrame:
    """Return the table ``windows``."""
    return _measured(_by_partition(cells_), WINDOW_KEYS)


def operations(cells_: DataFrame) -> DataFrame:
    """Return the table ``operations``."""
    return _measured(cells_, OPERATION_KEYS)


def holders(cells_: DataFrame) -> DataFrame:
    """Return the table ``holders``."""
    held = _by_partition(cells_).selectExpr("* EXCEPT (held_by)", "explode(array_distinct(held_by)) AS held_by")
    totals = _sql("sum(n)", "count"), _sql("sum(n * cast(wait_ms AS DOUBLE))", "wait_total_ms")
    return _with_start(held.groupBy(*HOLDER_KEYS).agg(*totals))


def _by_partition(cells_: DataFrame) -> DataFrame:
    """Return each cell once for each of its partitions, or once if it has none."""
    each = cells_.selectExpr("* EXCEPT (partitions)", "explode_outer(array_distinct(partitions)) AS each")
    return each.selectExpr("* EXCEPT (each)", "each.topic AS topic", "each.partition AS partition")


def _measured(cells_: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return the measures for each combination of keys.

    Every cell is expanded to four rows: by its cause, its outcome, its wait and its wait's bucket. These rows are added
    up, and then joined to one row per combination of keys.
    """
    told = cells_.selectExpr(
        *keys,
        "n",
        "inline(array("
        "named_struct('told_by', 'cause', 'word', cause, 'ms', NULL, 'checks', NULL), "
        "named_struct('told_by', 'outcome', 'word', outcome, 'ms', NULL, 'checks', checks), "
        "named_struct('told_by', 'wait', 'word', NULL, 'ms', wait_ms, 'checks', NULL), "
        f"named_struct('told_by', 'bucket', 'word', NULL, 'ms', {_BUCKET}, 'checks', NULL)))",
    )
    added = told.groupBy(*keys, "told_by", "word", "ms").agg(_sql("sum(n)", "n"), _sql("sum(checks)", "checks"))
    wait = "if(told_by = 'wait', ms, NULL)"
    measured = added.groupBy(*keys).agg(
        _sql("sum(if(told_by = 'outcome', n, 0L))", "count"),
        _sql("sum(if(told_by = 'outcome' AND word = 'expired', n, 0L))", "expired"),
        _sql(f"percentile({wait}, array(0.5, 0.95, 0.99), n)", "percentiles"),
        _sql(f"max({wait})", "wait_max_ms"),
        _sql(f"sum({wait} * cast(n AS DOUBLE))", "wait_total_ms"),
        _sql("sum(checks)", "checks"),
        *(_tally(told_by, label, name) for told_by, label, name in _TALLIES),
    )
    return _with_start(
        measured.selectExpr(
            *keys,
            *("count", "expired", "expired / count AS expiry_rate"),
            *(f"percentiles[{nth}] AS wait_p{name}_ms" for nth, name in enumerate((50, 95, 99))),
            *("wait_max_ms", "wait_total_ms", "checks", "checks / count AS checks_per_operation"),
            *("outcomes", "causes", "waits"),
        )
    )


_TALLIES: Final = (("outcome", "word", "outcomes"), ("cause", "word", "causes"), ("bucket", "ms", "waits"))


def _tally(told_by: str, label: str, name: str) -> Column:
    """Return an aggregate that is a map from label to count."""
    pairs = f"collect_list(struct({label}, n)) FILTER (WHERE told_by = '{told_by}')"
    return _sql(f"map_from_entries(array_sort({pairs}))", name)


def _with_start(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("timestamp_millis(window_ms) AS window_start", "* EXCEPT (window_ms)")


def _sql(expression: str, name: str) -> Column:
    from pyspark.sql import functions

    return functions.expr(expression).alias(name)
