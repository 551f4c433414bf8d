"""The console prints one line for each batch with events or bad records."""

from __future__ import annotations

import pytest

from purgatorio.pipeline.delays.batches import Landed
from purgatorio.pipeline.delays.console import Console, lag


def test_a_batch_is_printed_once_with_the_number_of_waiting_records() -> None:
    lines: list[str] = []
    console = Console(lines.append)
    sources = [{"endOffset": '{"t": {"0": 5, "1": 7}}', "latestOffset": '{"t": {"0": 1005, "1": 7}}'}]
    console.progress(3, 900.4, sources)
    assert lines == []
    console.landed(Landed(3, 12_400, 2, ("a", "b")))
    assert console.waits
    console.progress(2, 1.0, sources)
    console.progress(3, 900.4, sources)
    console.progress(3, 900.4, sources)
    assert lines == ["batch 3 · 12,400 events · 2 bad · 2 windows · 1,000 waiting · 900 rows/s"]
    assert not console.waits


def test_an_empty_batch_is_not_printed() -> None:
    lines: list[str] = []
    console = Console(lines.append)
    console.landed(Landed(0, 0, 0, ()))
    console.progress(0, 0.0, [])
    assert (lines, console.waits) == ([], False)


@pytest.mark.parametrize(
    ("read", "there", "waiting"),
    [
        ('{"t": {"0": 5}}', '{"t": {"0": 5, "1": 3}}', 3),
        ('{"t": {"0": 5}}', '{"t": {"0": 2}}', 0),
        ('{"t": {"0": 5}}', None, 0),
        (None, '{"t": {"0": 5}}', 0),
        ('"unknown"', '{"t": {"0": 5}}', 0),
    ],
)
def test_the_lag_is_the_number_of_records_after_the_read_offsets(
    read: str | None, there: str | None, waiting: int
) -> None:
    assert lag(read, there) == waiting
