"""Rows from messages: timestamps out of Spark's range."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka", reason="install purgatorio[spark]")

from purgatorio.pipeline.rows import _timestamps


def test_a_timestamp_out_of_sparks_range_is_null_and_stops_no_query() -> None:
    latest_ms = (2**63 - 1) // 1000
    found = _timestamps((-1, 0, 1_700_000_000_123, latest_ms, latest_ms + 1, 2**63 - 1))
    assert found.cast("int64").to_pylist() == [None, 0, 1_700_000_000_123_000, latest_ms * 1000, None, None]
