"""Batches in bronze and gold; the gold tables equal those of a plain Python oracle, also after failures."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import dataset

from purgatorio.pipeline.delays import aggregates
from purgatorio.pipeline.delays.batches import Batches, Landed, Stopping
from purgatorio.pipeline.delays.tables import Tables
from tests.pipeline.conftest import needs_spark
from tests.pipeline.delays import oracle, samples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = needs_spark

WIDTH_MS = 60_000
ORACLES: dict[str, Callable[..., oracle.Rows]] = {
    "windows": oracle.windows,
    "operations": oracle.operations,
    "holders": oracle.holders,
}
KEYS = {
    "windows": aggregates.WINDOW_KEYS,
    "operations": aggregates.OPERATION_KEYS,
    "holders": aggregates.HOLDER_KEYS,
}

Values = Sequence[dict[str, Any] | str | bytes | None]


class Run:
    """Batches and tables of one test, as in a process of the job."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.tables = Tables(root)
        self.landed: list[Landed] = []
        self.batches = Batches(self.tables, WIDTH_MS, self.landed.append)

    def take(self, values: Values, batch_id: int, first: int = 0) -> None:
        self.batches(samples.frame(self.spark, values, first), batch_id)

    def gold(self, table: str) -> oracle.Rows:
        """Return a gold table by its keys, in the oracle's format."""
        keys = ["window_start", *KEYS[table][2:]]
        found = {}
        for values in self._rows(table, window="string"):
            values["window_start"] = values["window_start"].replace(tzinfo=None)
            assert values.pop("window") == f"{values['window_start']:%Y-%m-%dT%H%M%SZ}"
            key = tuple(values.pop(each) for each in keys)
            assert key not in found
            found[key] = {name: dict(each) if isinstance(each, list) else each for name, each in values.items()}
        return found

    def bad(self) -> list[tuple[int, bytes, str]]:
        """Return offsets, values and reasons of the bad records."""
        return sorted((row["offset"], row["value"], row["reason"]) for row in self._rows("bad_records", batch="int64"))

    def ids(self) -> list[int]:
        """Return the events of bronze."""
        return sorted(row["id"] for row in self._rows("events", window="string", batch="int64"))

    def _rows(self, table: str, **by: str) -> list[dict[str, Any]]:
        """Read a table without Spark, which is faster, and checks that other readers can."""
        kinds = dataset.partitioning(pa.schema(list(by.items())), flavor="hive")
        return list(dataset.dataset(self.tables.path(table), partitioning=kinds).to_table().to_pylist())

    def assert_gold_is_of(self, events: Sequence[dict[str, Any]]) -> None:
        for table, truth in ORACLES.items():
            assert self.gold(table) == truth(events, WIDTH_MS), table


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    return Run(spark, tmp_path)


def test_the_tables_of_a_busy_clusters_events_equal_the_oracles(run: Run) -> None:
    """Late events belong to windows of earlier batches, and bad records lie between."""
    events = list(samples.busy(1, 20_000))
    assert any(len(event["partitions"]) == 2 for event in events)
    for nth in range(2):
        values: list[dict[str, Any] | str] = [*events[nth * 10_000 : (nth + 1) * 10_000]]
        values.insert(77, "not JSON")
        run.take(values, nth, nth * 10_001)
    run.assert_gold_is_of(events)
    assert run.ids() == [*range(1, 20001)]
    assert [(each.events, each.bad) for each in run.landed] == [(10_000, 1)] * 2
    assert run.landed[1].windows[0] < run.landed[0].windows[-1]
    assert run.bad() == [(nth * 10_001 + 77, b"not JSON", "the value is not JSON") for nth in range(2)]


def test_an_operation_counts_under_each_partition_and_holder_but_once_among_operations(run: Run) -> None:
    twice = [{"topic": "a", "partition": 0}, {"topic": "b", "partition": 1}, {"topic": "a", "partition": 0}]
    events = [
        samples.event(1, partitions=twice, held_by=[2, 3, 2]),
        samples.event(2, purgatory="topic", partitions=[], held_by=[], other_keys=["topics"]),
    ]
    run.take(events, 0)
    run.assert_gold_is_of(events)
    assert sorted((str(key[3]), key[4], row["count"]) for key, row in run.gold("windows").items()) == [
        ("None", None, 1),
        ("a", 0, 1),
        ("b", 1, 1),
    ]
    assert sum(row["count"] for row in run.gold("operations").values()) == 2
    assert len(run.gold("holders")) == 4


@pytest.mark.heavy
def test_the_largest_numbers_of_an_event_cause_no_error(run: Run) -> None:
    """The sums of these numbers would overflow a long."""
    huge = [samples.event(n, parked_ms=0, done_ms=253_402_300_799_999, checks=2**63 - 1) for n in range(1, 4)]
    run.take(huge, 0)
    ((_, row),) = run.gold("operations").items()
    assert (row["count"], row["wait_max_ms"], row["checks_per_operation"]) == (3, 253_402_300_799_999, 2.0**63)
    assert row["waits"] == {oracle.bucket(253_402_300_799_999): 3}


def test_a_repeated_batch_completes_the_gold_tables_after_a_kill(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    events = list(samples.busy(4, 400, 60_000))
    replace = run.tables.replace

    def dies(table: str, *args: Any) -> None:
        if table == "operations":
            raise KeyboardInterrupt
        replace(table, *args)

    with monkeypatch.context() as patched:
        patched.setattr(run.tables, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            run.take(events, 0)
    run.take(events, 0)
    run.assert_gold_is_of(events)


@pytest.mark.heavy
def test_the_tables_do_not_depend_on_the_division_into_batches_or_on_repeated_batches(run: Run) -> None:
    events = list(samples.busy(5, 300, 60_000))
    cuts = [0, *sorted(Random(5).sample(range(1, 300), 2)), 300]
    for nth, (first, last) in enumerate(itertools.pairwise(cuts)):
        run.take([*events[first:last], "bad"], nth, first + nth)
    run.take([*events[first:last], "bad"], nth, first + nth)
    run.assert_gold_is_of(events)
    assert run.ids() == [*range(1, 301)]
    assert len(run.bad()) == 3


def test_removed_gold_tables_are_made_again_from_bronze(run: Run) -> None:
    events = list(samples.busy(6, 300, 60_000))
    run.take(events, 0)
    assert run.batches.missing() == set()
    shutil.rmtree(run.tables.path("operations"))
    assert run.batches.missing() == run.tables.windows("events")
    run.batches.refresh(run.spark, run.batches.missing())
    run.assert_gold_is_of(events)


def test_a_batch_of_only_bad_records_and_an_empty_batch_are_accepted(run: Run) -> None:
    run.take([None, "x"], 0)
    run.take([], 1)
    assert run.landed == [Landed(0, 0, 2, ()), Landed(1, 0, 0, ())]
    assert not run.tables.path("windows").exists()


def test_after_a_stop_no_batch_is_started(run: Run) -> None:
    run.batches.stop()
    with pytest.raises(Stopping):
        run.take([samples.event()], 0)
    assert not run.tables.path("events").exists()


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_tables_of_a_million_events_equal_the_oracles(run: Run) -> None:
    events = list(samples.busy(7, 1_000_000))
    source = run.tables.root / "source"
    source.mkdir()
    for nth in range(10):
        lines = [json.dumps(event) for event in events[nth * 100_000 : (nth + 1) * 100_000]]
        (source / f"{nth}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        text = run.spark.read.text(str(source / f"{nth}.jsonl"))
        records = text.selectExpr(
            "cast(value AS BINARY) AS value",
            f"'{samples.TOPIC}' AS topic",
            "0 AS partition",
            "monotonically_increasing_id() AS offset",
            "current_timestamp() AS timestamp",
        )
        began = time.monotonic()
        run.batches(records, nth)
        print(f"batch {nth}: {100_000 / (time.monotonic() - began):,.0f} events/s")
    run.assert_gold_is_of(events)
    assert run.ids() == [*range(1, 1000001)]
