"""What tests of several parts share, and three rules for all of them.

A test that logs an error fails, unless it expects that (`error_log`). A test that starts a process is marked so that
``./scripts/test --quick`` leaves it out, and `tests.parts` says which tests else a quick run leaves out, or all but CI.
"""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests import error_log as errors
from tests import parts
from tests.compiled import stale_modules
from tests.simulation.seeds import SEEDS_A_DAY, Seeds, turn_of

SLOW_MARKS = ("process", "spark", "clients", "heavy")
"""The marks that allow a test to start processes; simulations have one, and start none."""
PROCESS_FIXTURES = {"start_purgatorio", "servers"}

COVERAGE = "COVERAGE_PROCESS"
"""What the environment variables begin with that have a process measured."""
_SEEDS_OPTION = "simulation_seeds"
_TRANSACTIONAL_OPTION = "transactional_seeds"

ROOT = Path(__file__).resolve().parents[1]
_running: pytest.Item | None = None
_STARTED = pytest.StashKey[float]()
_cpu_seconds: dict[str, float] = {}
"""The CPU time of each test with its fixtures, in this process or in those that share the tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which tests run, and which seeds are simulated."""
    parser.addoption("--part", choices=tuple(parts.MARKS), help="leave out what this part leaves out (tests/parts.py)")
    parser.addoption("--cpu-times", metavar="FILE", help="write the CPU time of each test there")
    parser.addoption(
        "--simulation-seeds", metavar="FIRST-LAST", help="seeds to simulate (default: by the date, in UTC)"
    )
    parser.addoption(
        "--seeds-a-day", type=int, default=SEEDS_A_DAY, metavar="COUNT", help="only so many of the day's seeds"
    )
    parser.addoption(
        "--transactional-seeds",
        metavar="FIRST-LAST",
        help="of these seeds, simulate those with transactions (default: in CI by the number of its run, else none)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the part, and today's seeds here, in the process that hands them to the others: midnight may be near."""
    if part := config.getoption("part"):
        config.option.markexpr = parts.MARKS[part]
    if part == "quick":
        from hypothesis import settings

        settings.register_profile("quick", max_examples=parts.EXAMPLES)
        settings.load_profile("quick")
    if stale := stale_modules(ROOT):
        pytest.exit(f"{stale[0]} is older than its source: run ./scripts/compile, or ./scripts/compile --clean", 1)
    if config.getoption(_SEEDS_OPTION) is None:
        setattr(
            config.option, _SEEDS_OPTION, str(Seeds.of_day(datetime.now(UTC).date(), config.getoption("seeds_a_day")))
        )
    if "CI" in os.environ and config.getoption(_TRANSACTIONAL_OPTION) is None:
        turn = turn_of(os.environ, datetime.now(UTC).date(), sys.version_info.minor)
        setattr(config.option, _TRANSACTIONAL_OPTION, str(Seeds.of_turn(turn)))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say how the same seeds are simulated again, and what a quick run leaves out for want of a package."""
    transactional = config.getoption(_TRANSACTIONAL_OPTION)
    more = f" --transactional-seeds {transactional}" if transactional else ""
    absent = sorted(parts.missing()) if config.getoption("part") == "quick" else []
    without = f"left out: files that import {', '.join(absent)}, which ./scripts/test installs"
    return [f"simulated seeds: --simulation-seeds {config.getoption(_SEEDS_OPTION)}{more}", *[without] * bool(absent)]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no file of which the part runs no test."""
    part = config.getoption("part")
    if not part or not collection_path.is_relative_to(ROOT):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    if not path.endswith(".py"):
        return None if parts.is_read(part, f"{path}/") else True
    if not parts.is_read(part, path):
        return True
    if (
        part == "quick"
        and parts.missing()
        and not parts.can_be_read(collection_path.read_text("utf-8"), parts.missing())
    ):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Skip a test of a quick run that imports a large package itself, and has it not."""
    try:
        return (yield)
    except ModuleNotFoundError as error:
        if pyfuncitem.config.getoption("part") == "quick" and (error.name or "").partition(".")[0] in parts.missing():
            pytest.skip(f"{error.name} is not installed; ./scripts/test installs it")
        raise


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the CPU time of a test."""
    if report.when == "teardown":
        _cpu_seconds[report.nodeid] = next(value for name, value in report.user_properties if name == "cpu")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a quick run in CI in which a test took far too much CPU time."""
    slowest = max(_cpu_seconds.values(), default=0.0)
    if session.config.getoption("part") == "quick" and "CI" in os.environ and slowest > parts.FAR_TOO_SLOW_SECONDS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the notes that passed tests recorded, and which are slow for a quick run."""
    if path := config.getoption("cpu_times"):
        Path(path).write_text("".join(f"{seconds:.4f} {test}\n" for test, seconds in _cpu_seconds.items()))
    if config.getoption("part") == "quick":
        for test, seconds in sorted(_cpu_seconds.items(), key=lambda each: -each[1]):
            if seconds > 4 * parts.LIMIT_SECONDS:  # a busy machine takes twice as long, and the first test imports
                terminalreporter.write_line(f"slow for a quick run: {test} took {seconds:.2f} s of CPU")
    for report in terminalreporter.getreports("passed"):
        for name, note in report.user_properties:
            if name == "note":
                terminalreporter.write_line(f"note: {note}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that start processes by a fixture, and listed ones; a process with a share begins with the longest."""
    for item in items:
        if PROCESS_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("process")
        marks = [mark.name for mark in item.iter_markers()]
        for mark in parts.marks_of(item.nodeid, marks):
            item.add_marker(mark)
    if hasattr(config, "workerinput"):
        from tests.sharing import rank

        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Share the tests out as `tests.sharing` says, for ``--dist loadfile``."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.sharing import Sharing

    return Sharing(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over the million objects of thousands of tests no more: a pass took 0.3 s.

    A run without Hypothesis is a small one; were that imported later, it would miss objects that are frozen.
    """
    if "hypothesis" in sys.modules:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Know the test that runs, with its fixtures; a command that it runs here sets the level of all loggers."""
    global _running
    _running = item
    item.stash[_STARTED] = time.process_time()
    level = logging.root.level
    try:
        return (yield)
    finally:
        _running = None
        logging.root.setLevel(level)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Have the last report of a test tell its CPU time, in seconds."""
    if call.when == "teardown":
        item.user_properties.append(("cpu", time.process_time() - item.stash[_STARTED]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measure no coverage in a test that has the mark `no_cover`."""
    measuring = sys.modules.get("coverage") and sys.modules["coverage"].Coverage.current()
    if not measuring or item.get_closest_marker("no_cover") is None:
        return (yield)
    measuring.stop()
    try:
        return (yield)
    finally:
        measuring.start()


def _refuse_unmarked_processes(event: str, args: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _running is not None:
        marked = any(_running.get_closest_marker(mark) for mark in SLOW_MARKS)
        assert marked, f"it starts {args[0]}: mark the test with pytest.mark.process"


sys.addaudithook(_refuse_unmarked_processes)


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the test starts have their coverage not measured: that loads modules of its own."""
    for name in list(os.environ):
        if name.startswith(COVERAGE):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def error_log() -> Iterator[errors.ErrorLog]:
    """The errors that were logged: `error_log.expect(words)` for each that belongs to the test; others fail it."""
    with errors.watching() as log:
        yield log
    unexpected = log.unexpected()
    assert not unexpected, "the test logged errors that it does not expect:\n" + "\n".join(unexpected)


class PurgatorioProcess:
    """A `purgatorio` command in a process of its own; its log lines go to the standard error.

    Args:
        argv: the command and its flags, without the program's name.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        left_out: tuple[str, ...] = ("PURGATORIO_",)
        if _running is not None and _running.get_closest_marker("spark"):
            left_out += (COVERAGE,)  # the bar is for what the other tests cover
        environ = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
        command = [sys.executable, "-m", "purgatorio", *argv]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)

    def greeting(self) -> str:
        """What is printed up to the line that says how to stop it; by then clients are answered."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C"):
                return "".join(lines)
        code, errors = self.end()
        raise AssertionError(f"it ended with exit code {code}: {errors}")

    def end(self) -> tuple[int, str]:
        """Wait for its end: the exit code and the standard error."""
        _, errors = self.process.communicate()
        return self.process.returncode, errors

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class StartPurgatorio(Protocol):
    """Starts a command; it does not outlive the test."""

    def __call__(self, *argv: str) -> PurgatorioProcess:
        """For example ``start("cluster", "--port", "0", "--admin-port", "0")``."""
        ...


@pytest.fixture
def start_purgatorio() -> Iterator[StartPurgatorio]:
    """Starts `purgatorio` processes, and ends them with the test."""
    started: list[PurgatorioProcess] = []

    def start(*argv: str) -> PurgatorioProcess:
        started.append(PurgatorioProcess(argv))
        return started[-1]

    yield start
    for process in started:
        process.close()
