"""From records to events: parsed, checked, and put into windows by the time at which they ended."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from purgatorio.pipeline.delays import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD_COLUMNS: Final = ("value", "topic", "partition", "offset", "timestamp")
"""What is used of a record."""

LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: times after it have no name in SQL."""

_TEXT: Final = "cast(value AS STRING)"
_END: Final = "the value ended"
_UNFIT: Final = "_unfit"
_OPTIONS: Final = f"map('columnNameOfCorruptRecord', '{_UNFIT}')"


def with_windows(records: DataFrame, width_ms: int) -> DataFrame:
    """Parse records; a row for each of them, whatever it holds.

    Args:
        records: rows with RECORD_COLUMNS.
        width_ms: how long a window is.

    Returns:
        topic, partition, offset, timestamp; `value`, the raw one of bad records and null for others; `reason`, why a
        record is bad, else null; `event`, the parsed one; `window_ms` and `window`, when its window starts, null for
        bad records: milliseconds since 1970 and a name that sorts and fits a directory.
    """
    window_ms = f"event.done_ms - event.done_ms % {int(width_ms)}"
    return (
        records.select(*RECORD_COLUMNS)
        .selectExpr("*", f"from_json({_TEXT}, '{_parsed_columns()}', {_OPTIONS}) AS event")
        .selectExpr("*", f"{_reason()} AS reason")
        .selectExpr(
            "if(reason IS NULL, NULL, value) AS value",
            *RECORD_COLUMNS[1:],
            "reason",
            "event",
            f"if(reason IS NULL, {window_ms}, NULL) AS window_ms",
        )
        .selectExpr("*", f"{window_name('window_ms')} AS window")
    )


def good(parsed: DataFrame, batch_id: int) -> DataFrame:
    """The events of what `with_windows` returned, a column for each field, and where they come from."""
    fields = [f"event.`{name}`" for name in schema.load()["properties"]]
    return parsed.where("reason IS NULL").selectExpr(
        *fields,
        "event.done_ms - event.parked_ms AS wait_ms",
        "window_ms",
        "partition AS record_partition",
        "offset AS record_offset",
        "window",
        f"{int(batch_id)}L AS batch",
    )


def bad(parsed: DataFrame, batch_id: int) -> DataFrame:
    """The bad records of what `with_windows` returned, as they came, and why they are bad."""
    return parsed.where("reason IS NOT NULL").selectExpr(*RECORD_COLUMNS, "reason", f"{int(batch_id)}L AS batch")


def event_columns() -> str:
    """The columns of `good`, in Spark's DDL."""
    own = "wait_ms BIGINT, window_ms BIGINT, record_partition INT, record_offset BIGINT, window STRING, batch BIGINT"
    return f"{schema.columns(schema.load())}, {own}"


def window_name(milliseconds: str) -> str:
    """SQL for the name of a window, such as ``2026-01-31T235900Z``; the session's time zone plays no part in it.

    Args:
        milliseconds: SQL for when it starts.
    """
    at = f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {milliseconds} DIV 1000)"
    return f"concat(translate(cast({at} AS STRING), ' :', 'T'), 'Z')"


@cache
def _parsed_columns() -> str:
    return f"{schema.columns(schema.load())}, {_UNFIT} STRING"


@cache
def _reason() -> str:
    """SQL for why a record is bad.

    `from_json` takes single quotes for double ones, and repeated fields; `parse_json` does not. Both read the first
    value and forget what follows it, so it is parsed with something behind it that must be found again.
    """
    parsed = f"try_parse_json(concat('[', {_TEXT}, ',\"{_END}\"]'))"
    cases = [
        schema.Check("value IS NULL", "there is no value"),
        schema.Check(f"NOT is_valid_utf8({_TEXT})", "the value is not UTF-8"),
        schema.Check(f"try_variant_get({parsed}, '$[1]', 'STRING') IS DISTINCT FROM '{_END}'", "the value is not JSON"),
        schema.Check(f"ltrim({_TEXT}) NOT LIKE '{{%'", "the value is not a JSON object"),
        *schema.checks(schema.load(), "event"),
        schema.Check("event.done_ms < event.parked_ms", "done_ms is before parked_ms"),
        schema.Check(f"event.done_ms > {LAST_MS}", "done_ms is after the year 9999"),
        schema.Check(f"event.{_UNFIT} IS NOT NULL", "a field has a value of another type"),
    ]
    return "CASE " + " ".join(f"WHEN {broken} THEN {schema.literal(reason)}" for broken, reason in cases) + " END"
