"""A run starts only in a directory that it can continue; the check needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.pipeline.delays.tables import CannotGoOn, Tables

SETTINGS = {"topic": "t", "window_ms": 60_000}


def refusal(root: Path, **changed: object) -> str:
    with pytest.raises(CannotGoOn) as told, Tables(root).opened(SETTINGS | changed):
        pass
    return str(told.value)


def begun(root: Path) -> Path:
    """Return a directory that one batch was written to."""
    with Tables(root).opened(SETTINGS):
        (root / "events" / "window=2026-01-01T000000Z" / "batch=0").mkdir(parents=True)
        (root / "checkpoint" / "commits").mkdir(parents=True)
        (root / "checkpoint" / "commits" / "0").touch()
    return root


def test_a_run_continues_where_another_ended(tmp_path: Path) -> None:
    root = begun(tmp_path / "new" / "delays")
    with Tables(root).opened(SETTINGS):
        assert Tables(root).windows("events") == {"2026-01-01T000000Z"}
        assert Tables(root).windows("operations") == set()


def test_a_run_that_was_killed_before_its_first_batch_can_start_again(tmp_path: Path) -> None:
    with Tables(tmp_path).opened(SETTINGS):
        (tmp_path / "checkpoint").mkdir()
    with Tables(tmp_path).opened(SETTINGS):
        pass


def test_a_run_that_found_no_record_can_be_continued(tmp_path: Path) -> None:
    """Spark commits a first batch without records, which writes no partition of any table."""
    with Tables(tmp_path).opened(SETTINGS):
        (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
        (tmp_path / "checkpoint" / "commits" / "0").touch()
    with Tables(tmp_path).opened(SETTINGS):
        pass


def test_a_run_that_was_killed_before_it_had_a_checkpoint_can_start_again(tmp_path: Path) -> None:
    for _ in range(2):
        with Tables(tmp_path).opened(SETTINGS):
            pass
    assert not (tmp_path / "checkpoint").exists()


def test_tables_without_a_checkpoint_are_refused(tmp_path: Path) -> None:
    root = begun(tmp_path)
    (root / "checkpoint").rename(root / "elsewhere")
    assert "has tables but no checkpoint" in refusal(root)


def test_a_checkpoint_without_tables_is_refused(tmp_path: Path) -> None:
    root = begun(tmp_path)
    (root / "events").rename(root / "elsewhere")
    assert "has a checkpoint but no tables" in refusal(root)


def test_tables_with_other_settings_are_refused(tmp_path: Path) -> None:
    root = begun(tmp_path)
    assert "were written with window_ms 60000, not 10000" in refusal(root, window_ms=10_000)
    assert "were written with topic t, not u" in refusal(root, topic="u")


def test_two_runs_cannot_write_at_the_same_time(tmp_path: Path) -> None:
    with Tables(tmp_path).opened(SETTINGS):
        assert "another run is writing" in refusal(tmp_path)
    with Tables(tmp_path).opened(SETTINGS):
        pass


def test_the_partial_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    root = begun(tmp_path)
    left = root / "events" / ".spark-staging-1"
    left.mkdir()
    with Tables(root).opened(SETTINGS):
        assert not left.exists()
