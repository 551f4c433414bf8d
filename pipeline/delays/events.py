"""Events from records: parsed, checked, and assigned to windows by the time at which their operations ended."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from purgatorio.pipeline.delays import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD_COLUMNS: Final = ("value", "topic", "partition", "offset", "timestamp")
"""The columns of a record that the job uses."""

LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last time that SQL can write, in milliseconds since 1970."""

_TEXT: Final = "cast(value AS STRING)"
_END: Final = "the value ended"
_UNFIT: Final = "_unfit"
_OPTIONS: Final = f"map('columnNameOfCorruptRecord', '{_UNFIT}')"


def with_windows(records: DataFrame, width_ms: int) -> DataFrame:
    """Parse records into one row each.

    Args:
        records: rows with RECORD_COLUMNS.
        width_ms: the width of a window.

    Returns:
        Rows with topic, partition, offset and timestamp; `value`, a bad record's raw value, else null; `reason`, the
        error of a bad record, else null; `event`, the parsed event; `window_ms` and `window`, the start of its window
        in milliseconds since 1970 and as a sortable directory name, null for bad records.
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
    """Return the events among the rows of `with_windows`: a column for each field, and partition and offset."""
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
    """Return the bad records among the rows of `with_windows`, unchanged, with the reason."""
    return parsed.where("reason IS NOT NULL").selectExpr(*RECORD_COLUMNS, "reason", f"{int(batch_id)}L AS batch")


def event_columns() -> str:
    """Return the columns of `good`, in Spark's DDL."""
    own = "wait_ms BIGINT, window_ms BIGINT, record_partition INT, record_offset BIGINT, window STRING, batch BIGINT"
    return f"{schema.columns(schema.load())}, {own}"


def window_name(milliseconds: str) -> str:
    """Return SQL for the name of a window, such as ``2026-01-31T235900Z``, in UTC for any time zone of the session.

    Args:
        milliseconds: SQL for the window's start in milliseconds since 1970.
    """
    at = f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {milliseconds} DIV 1000)"
    return f"concat(translate(cast({at} AS STRING), ' :', 'T'), 'Z')"


@cache
def _parsed_columns() -> str:
    return f"{schema.columns(schema.load())}, {_UNFIT} STRING"


@cache
def _reason() -> str:
    """Return SQL for the reason why a record is bad, or null.

    `from_json` accepts single quotes and repeated fields; `parse_json` does not. Both read the first value and ignore
    the rest, so the value is parsed as an array with an end mark behind it, and the end mark must be found.
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
