"""The library's log: fields for formatters, one line for people, and silence for programs that did not ask."""

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from purgatorio.logger import LogEvent, get_logger
from tests.error_log import ErrorLog
from tests.logs import capture_logs

logger = get_logger("purgatorio.test")


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield


def test_a_line_is_the_event_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    logger.info("broker started", broker=1, host="127.0.0.1", port=9092, isr=[1, 2])
    (record,) = caplog.records
    assert record.getMessage() == "broker started broker=1 host=127.0.0.1 port=9092 isr=[1, 2]"
    assert (record.name, record.levelname) == ("purgatorio.test", "INFO")


def test_fields_reach_a_handler_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    logger.debug("asked", isr=[1, 2])
    message: object = caplog.records[0].msg
    assert isinstance(message, LogEvent)
    assert (message.event, message.fields) == ("asked", {"isr": [1, 2]})
    assert repr(message) == "LogEvent('asked', {'isr': [1, 2]})"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("no answer", "'no answer'"),
        ("", "''"),
        ("a=b", "'a=b'"),
        ("x\n[error] forged \x1b[2J", r"'x\n[error] forged \x1b[2J'"),
        (ValueError("a\nb"), r"'a\nb'"),
        (None, "None"),
        ("100%s", "'100%s'"),
    ],
)
def test_a_value_cannot_end_its_line_or_look_like_two(
    value: object, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Values come from clients too."""
    logger.warning("refused", reason=value)
    assert caplog.messages == [f"refused reason={shown}"]


def test_an_exception_brings_its_traceback(caplog: pytest.LogCaptureFixture, error_log: ErrorLog) -> None:
    """The one being handled, or one that is given."""
    try:
        raise ValueError("handled")
    except ValueError:
        logger.exception("failed", api="FETCH")
    logger.error("failed", exc_info=ValueError("given"))
    assert caplog.messages == ["failed api=FETCH", "failed"]
    error_log.expect("ValueError: handled")
    error_log.expect("ValueError: given")


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "exception"])
def test_a_record_names_the_line_that_logged(level: str, caplog: pytest.LogCaptureFixture, error_log: ErrorLog) -> None:
    getattr(logger, level)("here", exc_info=None)
    assert (caplog.records[0].filename, caplog.records[0].funcName) == (
        "test_logger.py",
        "test_a_record_names_the_line_that_logged",
    )
    if level in ("error", "exception"):
        error_log.expect("here")


def test_a_level_that_is_off_makes_no_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for log in (logger.debug, logger.info, logger.warning, logger.error, logger.exception):
        log("no")
    assert caplog.records == []


def test_captured_entries_reach_no_other_handler(caplog: pytest.LogCaptureFixture) -> None:
    with capture_logs() as logs:
        logger.error("expected", topic="t")
    assert logs == [{"topic": "t", "event": "expected", "log_level": "error"}]
    assert caplog.records == []


CLUSTER = """
import asyncio, logging, sys
if len(sys.argv) > 1:
    logging.basicConfig(level=sys.argv[1], stream=sys.stdout)
from purgatorio import Cluster, ClusterConfig
from purgatorio.logger import get_logger
async def main():
    async with Cluster(ClusterConfig(port=0, admin_port=0)):
        get_logger("purgatorio.broker.x").error("a failure")
asyncio.run(main())
assert 'structlog' not in sys.modules
assert logging.getLogger().handlers == [] or len(sys.argv) > 1
"""


def _run_cluster(*level: str) -> str:
    command = [sys.executable, "-c", CLUSTER, *level]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.process
def test_a_cluster_in_a_program_prints_nothing() -> None:
    """And configures no logging; not even errors are printed."""
    assert _run_cluster() == ""


@pytest.mark.process
def test_a_program_that_configures_logging_sees_the_lines() -> None:
    lines = _run_cluster("INFO").splitlines()
    started = [line for line in lines if line.startswith("INFO:purgatorio.broker.node.broker:broker started broker=")]
    assert len(started) == 3
    assert "ERROR:purgatorio.broker.x:a failure" in lines
