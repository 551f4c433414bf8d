"""The tour of share groups, with the worker and the commands that its page has."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="the tour needs confluent-kafka")

pytestmark = [pytest.mark.process, pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "tours.md").read_text().partition("## Tour 7: ")[2].partition("\nMore tours")[0]
COMMANDS = re.findall(r"^\$ (.*)$", SECTION, re.MULTILINE)
PATIENCE_SECONDS = 30.0


class Terminal:
    """A command that runs on: what it has printed, and the key Enter."""

    def __init__(self, argv: list[str], printed: Path) -> None:
        self.printed = printed
        with printed.open("w") as out:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, text=True
            )

    def says(self, pattern: str) -> bool:
        return re.search(pattern, self.printed.read_text()) is not None

    def until(self, pattern: str) -> str:
        """Wait until it has printed this, and return the last group."""
        until(lambda: self.says(pattern), lambda: f"{pattern} in {self.printed.read_text()}")
        found = re.search(pattern, self.printed.read_text())
        assert found is not None
        return found[found.re.groups]

    def enter(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def until(is_so: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait for what processes do."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < ends, what()
        time.sleep(0.05)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    """Terminals, whose commands end with the test."""
    opened: list[Terminal] = []
    yield opened
    for each in reversed(opened):
        each.process.kill()
        each.process.wait()
        if each.process.stdin is not None:
            each.process.stdin.close()


def test_each_step_of_the_tour_does_what_it_says(tmp_path: Path, terminals: list[Terminal]) -> None:
    run, ada, bob, produce, describe, advance, advance_45, reset, delete = COMMANDS

    def opened(name: str, argv: list[str]) -> Terminal:
        terminals.append(Terminal([sys.executable, "-u", *argv], tmp_path / name))
        return terminals[-1]

    flags = run.removeprefix("./scripts/run").split()
    cluster = opened("cluster", ["-m", "purgatorio", "cluster", "--port", "0", "--admin-port", "0", *flags])
    admin = cluster.until(r"page +(http://\S+)/")
    bootstrap = cluster.until(r"--bootstrap (\S+)")
    (program,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    (tmp_path / "worker.py").write_text(program.replace("localhost:9092", bootstrap))

    def worker(command: str) -> Terminal:
        name = command.removeprefix(".venv/bin/python worker.py ")
        return opened(name, [str(tmp_path / "worker.py"), name])

    def done(command: str) -> str:
        words = shlex.split(command.removeprefix(".venv/bin/"))
        argv = ["-m", "purgatorio", *words[1:]] if words[0] == "purgatorio" else [*words[1:], "--bootstrap", bootstrap]
        environment = {**os.environ, "PURGATORIO_ADMIN": admin}
        ended = subprocess.run([sys.executable, *argv], cwd=ROOT, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    workers = [worker(ada), worker(bob)]
    until(lambda: "2 members fetch" in done(describe), lambda: done(describe))
    until(lambda: "orders-0: active" in done(describe), lambda: done(describe))
    done(produce)
    until(lambda: any(each.says("record 0, delivery 1") for each in workers), lambda: "the first delivery")
    first, second = sorted(workers, key=lambda each: not each.says("record 0, delivery 1"))
    assert re.search(r"^0 +acquired +1 +\S+ +2\d\.\d s$", done(describe), re.MULTILINE)
    done(advance)
    second.until("record 0, delivery 2: Enter acknowledges it")
    first.enter()
    first.until("INVALID_RECORD_STATE")
    second.enter()
    second.until("it acknowledged")
    for each in workers:
        each.process.send_signal(signal.SIGINT)
        each.process.wait()
    done(advance_45)
    assert re.search(r"^orders-0 +\d +0$", done(reset), re.MULTILINE)
    assert done(delete) == "share group jobs is deleted\n"
