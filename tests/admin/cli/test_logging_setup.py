"""Log lines: all loggers have the same format, and a client can forge no line."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from purgatorio.admin.cli.logging_setup import LINES_PER_EVENT, MAX_VALUE_CHARS, configure_logging
from purgatorio.logger import PERIOD_MS, get_logger
from purgatorio.purgatory.clock import ManualClock
from tests.error_log import ErrorLog


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Puts the process's logging back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_carry_the_event_and_its_values() -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    get_logger("purgatorio.broker.server").warning("refused", peer="1.2.3.4:5", reason="tls")
    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "refused",
        "level": "warning",
        "logger": "purgatorio.broker.server",
        "peer": "1.2.3.4:5",
        "reason": "tls",
    }


def test_the_standard_librarys_loggers_write_the_same_lines(error_log: ErrorLog) -> None:
    """The purgatory's lines too, with their tracebacks."""
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("purgatorio.purgatory").exception("%s failed", "Produce")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("Produce failed", "error", "purgatorio.purgatory")
    assert line["exception"].endswith("ValueError: no")
    error_log.expect("Produce failed")


@pytest.mark.process
def test_what_writes_lines_is_imported_with_the_first_one() -> None:
    """A cluster that a test owns is ready sooner."""
    script = (
        "import logging, sys\n"
        "from purgatorio.admin.cli.logging_setup import configure_logging\n"
        "configure_logging('console', 'warning')\n"
        "logging.getLogger('a').info('left out')\n"
        "print('structlog' in sys.modules)\n"
        "logging.getLogger('a').warning('written')\n"
        "print('structlog' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"
    assert "written" in done.stderr


@pytest.mark.process
def test_a_line_loads_no_terminal_library_and_leaves_it_to_others() -> None:
    """structlog imports rich if it is there, which takes 4 MB of each cluster's process."""
    script = (
        "import logging, sys\n"
        "from purgatorio.admin.cli.logging_setup import configure_logging\n"
        "configure_logging('console', 'warning')\n"
        "try:\n"
        "    int('x')\n"
        "except ValueError:\n"
        "    logging.exception('written')\n"
        "print('rich' in sys.modules)\n"
        "import rich.text\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert "ValueError: invalid literal" in done.stderr


def test_clients_that_cause_lines_without_end_do_not_fill_the_log() -> None:
    """Members that join again and again: each rebalance is a line."""
    clock = ManualClock()
    stream = io.StringIO()
    configure_logging("json", "info", stream, clock)
    groups, others = get_logger("purgatorio.broker.group"), get_logger("purgatorio.broker.txn")
    for _ in range(5_000):
        groups.info("group rebalances", group="g")
    others.info("transaction aborted", transactional_id="t")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["group rebalances"] * LINES_PER_EVENT + ["transaction aborted"]
    clock.advance_ms(PERIOD_MS)
    groups.info("group rebalances", group="g")
    assert json.loads(stream.getvalue().splitlines()[-1])["lines_left_out"] == 5_000 - LINES_PER_EVENT


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_long_value_of_a_client_is_cut(log_format: str) -> None:
    """A JoinGroup's reason, a member's client id: both come from a request of up to 100 MiB."""
    stream = io.StringIO()
    configure_logging(log_format, "info", stream)  # type: ignore[arg-type]
    get_logger("a").info("group rebalances", detail="x" * 30_000, members=3)
    assert len(stream.getvalue()) < MAX_VALUE_CHARS + 300
    assert "30000 characters" in stream.getvalue()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_lines_below_the_level_are_not_written(log_format: str) -> None:
    stream = io.StringIO()
    configure_logging(log_format, "warning", stream)  # type: ignore[arg-type]
    get_logger("a").info("no")
    logging.getLogger("b").info("no")
    assert stream.getvalue() == ""


def test_a_stack_is_written_below_its_line() -> None:
    stream = io.StringIO()
    configure_logging("console", "info", stream)
    get_logger("a").error("request answered twice", api_key=3, stack_info=True)
    first, *stack = stream.getvalue().splitlines()
    assert "request answered twice" in first
    assert "stack_info" not in first
    assert stack[0].startswith("Stack (most recent call last)")


def test_a_value_of_a_client_cannot_forge_a_line() -> None:
    """Line ends and terminal codes in values are shown, not obeyed."""
    stream = io.StringIO()
    configure_logging("console", "info", stream)
    get_logger("a").info("request", client_id="x\n00:00:00 [error] forged \x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
