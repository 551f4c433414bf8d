"""Records become events or bad records, and none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from purgatorio.pipeline.delays import events
from tests.pipeline.conftest import needs_spark
from tests.pipeline.delays import samples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = needs_spark


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in samples.event().items() if key != name}


BAD: list[tuple[dict[str, Any] | str | bytes | None, str]] = [
    (None, "there is no value"),
    ("", "the value is not JSON"),
    ('{"version": 1, "broker":', "the value is not JSON"),
    ('{"version": 1} {"version": 1}', "the value is not JSON"),
    ('{"version": 1},{"version": 1}', "the value is not JSON"),
    ('{"version": 1}]', "the value is not JSON"),
    ('{"version": 1} and more', "the value is not JSON"),
    ("{'version': 1}", "the value is not JSON"),
    ('{"version": 1, "version": 1}', "the value is not JSON"),
    ("[" * 5000, "the value is not JSON"),
    ('{"version": 1' + "0" * 5000 + "}", "the value is not JSON"),
    (b'{"version": "\xff"}', "the value is not UTF-8"),
    ("5", "the value is not a JSON object"),
    ('[{"version": 1}]', "the value is not a JSON object"),
    ("{}", "version is missing or not an integer"),
    (samples.event(version=2), "version is not 1"),
    ({"version": 2}, "version is not 1"),
    (without("outcome"), "outcome is missing or not a string"),
    (without("held_by"), "held_by is missing or not an array"),
    (samples.event(detail=None), "detail is missing or not a string"),
    (samples.event(broker="one"), "broker is missing or not an integer"),
    (samples.event(checks=1.5), "checks is missing or not an integer"),
    (samples.event(checks=2**63), "checks is missing or not an integer"),
    (samples.event(id=0), "id is below 1"),
    (samples.event(purgatory=""), "purgatory is shorter than 1"),
    (samples.event(outcome="forgotten"), "outcome is none of completed, expired, cancelled, shutdown, error"),
    (samples.event(held_by=[2, None]), "held_by[] is missing or not an integer"),
    (samples.event(partitions={"topic": "t", "partition": 0}), "partitions is missing or not an array"),
    (samples.event(partitions=[{"topic": "t"}]), "partitions[].partition is missing or not an integer"),
    (samples.event(partitions=[{"topic": "t", "partition": -1}]), "partitions[].partition is below 0"),
    (
        samples.event(partitions=[{"topic": "t", "partition": n} for n in range(101)]),
        "partitions has more than 100 items",
    ),
    (samples.event(done_ms=samples.START_MS - 1), "done_ms is before parked_ms"),
    (samples.event(done_ms=2**63 - 1), "done_ms is after the year 9999"),
]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> list[Any]:
    """Bad records, each between good ones."""
    mixed = [each for value, _ in BAD for each in (samples.event(), value)]
    return events.with_windows(samples.frame(spark, mixed), 60_000).orderBy("offset").collect()


def test_every_bad_record_has_a_reason_and_keeps_its_value_and_offset(found: list[Any]) -> None:
    raw = samples.rows([value for value, _ in BAD])
    assert [row.reason for row in found[1::2]] == [reason for _, reason in BAD]
    assert [row.value and bytes(row.value) for row in found[1::2]] == [value for value, *_ in raw]
    assert [row.offset for row in found] == list(range(2 * len(BAD)))
    assert {row.topic for row in found} == {samples.TOPIC}
    assert {row.window for row in found[1::2]} == {None}


def test_good_records_between_bad_ones_are_events_without_their_raw_value(found: list[Any]) -> None:
    for row in found[::2]:
        assert (row.reason, row.value, row.window) == (None, None, "2026-01-01T000000Z")
        assert row.event.client == "toy-producer"


def test_every_event_that_the_schema_allows_is_good(spark: SparkSession) -> None:
    allowed: list[dict[str, Any] | str | bytes | None] = [
        samples.event(since_version_1_1={"a": [1]}),
        samples.event(partitions=[], held_by=[], other_keys=[], client="", checks=0),
        samples.event(parked_ms=0, done_ms=0, deadline_ms=2**63 - 1, checks=2**63 - 1),
        samples.event(parked_ms=0, done_ms=events.LAST_MS),
        samples.event(client="ünïcødé \u0000 '\"\\ <b>"),
    ]
    rows = events.with_windows(samples.frame(spark, allowed), 10_000).orderBy("offset").collect()
    assert [row.reason for row in rows] == [None] * 5
    assert rows[2].window == "1970-01-01T000000Z"
    assert rows[3].window == "9999-12-31T235950Z"
    assert rows[4].event.client == "ünïcødé \u0000 '\"\\ <b>"


def test_good_and_bad_rows_are_all_rows(spark: SparkSession) -> None:
    mixed: list[dict[str, Any] | str | bytes | None] = [
        samples.event(1),
        "x",
        samples.event(2, done_ms=samples.START_MS),
    ]
    parsed = events.with_windows(samples.frame(spark, mixed, first=40), 60_000)
    good = events.good(parsed, 7).orderBy("record_offset").collect()
    assert [(row.id, row.wait_ms, row.record_offset, row.batch) for row in good] == [(1, 3, 40, 7), (2, 0, 42, 7)]
    kept = events.good(parsed, 7).schema
    assert kept.simpleString() == spark.createDataFrame([], events.event_columns()).schema.simpleString()
    (bad,) = events.bad(parsed, 7).collect()
    assert (bytes(bad.value), bad.offset, bad.reason, bad.batch) == (b"x", 41, "the value is not JSON", 7)


def test_windows_have_the_same_name_in_every_time_zone(spark: SparkSession) -> None:
    """New York's daylight saving time began at 2025-03-09 07:00 UTC."""
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        (row,) = spark.sql(f"SELECT {events.window_name('1741503600000L')} AS name").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert row.name == "2025-03-09T070000Z"
