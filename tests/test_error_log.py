"""Errors in the log are seen whatever a test does to the handlers, and each has to be expected."""

from __future__ import annotations

import logging

import pytest

from purgatorio.logger import get_logger
from tests.error_log import ErrorLog, watching
from tests.logs import capture_logs


def test_an_error_is_kept_once_with_its_traceback(error_log: ErrorLog) -> None:
    with watching() as log:
        get_logger("purgatorio.x").error("failed", exc_info=ValueError("broken"))
    assert log.unexpected() == ["purgatorio.x: failed\nValueError: broken"]
    error_log.expect("ValueError: broken")


def test_warnings_and_captured_errors_are_none() -> None:
    with watching() as log, capture_logs():
        get_logger("purgatorio.x").error("captured")
    with watching() as log:
        logging.getLogger("purgatorio.x").warning("no error")
    assert log.unexpected() == []


def test_errors_of_other_libraries_count_and_those_of_ours_without_the_roots_handlers(
    error_log: ErrorLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watching() as log:
        logging.getLogger("asyncio").error("Task exception was never retrieved")
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        logging.getLogger("purgatorio.purgatory").error("failed")
        monkeypatch.undo()
    assert len(log.unexpected()) == 2
    error_log.expect("Task exception")
    error_log.expect("purgatory: failed")


def test_each_error_has_to_be_expected(error_log: ErrorLog) -> None:
    for _ in range(2):
        get_logger("purgatorio.x").error("failed")
    error_log.expect("failed")
    assert error_log.unexpected() == ["purgatorio.x: failed"]
    error_log.expect("failed")
    with pytest.raises(AssertionError, match="no error with 'failed' was logged"):
        error_log.expect("failed")


def test_a_client_may_log_that_a_topic_is_new(error_log: ErrorLog) -> None:
    with watching() as log:
        logging.getLogger("aiokafka.cluster").error("Topic %s not found in cluster metadata", "orders")
        logging.getLogger("purgatorio").error("Topic orders not found in cluster metadata")
    assert log.unexpected() == ["purgatorio: Topic orders not found in cluster metadata"]
    error_log.expect("purgatorio: Topic orders")
