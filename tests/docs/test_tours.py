"""The tours, gone as their page says, with all brokers in one process and with each in its own.

The commands are the page's: only ports, the interpreter's path and the ids of brokers that lead are put in. The sixth
tour is a simulation, which has its own page and tests.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tours.md").read_text(encoding="utf-8")
DEADLINE_SECONDS = 120
RUN = "./scripts/run"
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


@dataclass
class Program:
    """A program in a terminal of its own, and the file with what it prints."""

    process: subprocess.Popen[bytes]
    printed: Path

    def said(self) -> str:
        """Return what it has printed when it has ended."""
        self.process.wait(DEADLINE_SECONDS)
        return self.printed.read_text()

    def until(self, words: str) -> None:
        """Wait until it has printed this."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while words not in self.printed.read_text():
            assert time.monotonic() < deadline, self.printed.read_text()
            time.sleep(0.05)


class Tour:
    """One tour on a cluster that runs.

    Args:
        number: which one; its commands are those of its section.
        processes: whether each broker is a process.
        folder: for what programs print.
    """

    def __init__(self, number: int, processes: bool, folder: Path) -> None:
        self._folder = folder
        self.text = re.split(r"^## ", PAGE, flags=re.MULTILINE)[number]
        assert self.text.startswith(f"Tour {number}:")
        self._commands = re.findall(r"^\$ (.*)$", self.text, re.MULTILINE)
        flags = next((each for each in self._commands if each.startswith(RUN)), RUN).removeprefix(RUN)
        ports = ["--port", "0", "--admin-port", "0", *(["--processes"] if processes else [])]
        command = [sys.executable, "-m", "purgatorio", "cluster", *ports, *flags.replace(":9092", ":0").split()]
        self._cluster = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )
        assert self._cluster.stdout is not None
        said = "".join(iter(self._cluster.stdout.readline, "\n"))
        assert ("each a process" in said) == processes, said
        self._address = re.findall(r"broker \d +(?:\w+://)?(\S+:\d+)", said)[0]
        self._admin = re.findall(r"page +http://(\S+?)/\s", said)[0]
        self._started: list[Program] = []
        self.names: dict[str, str] = {}

    def command(self, start: str) -> str:
        """Return the first command of the tour that begins so."""
        return next(each for each in self._commands if each.startswith(start))

    def answer(self, start: str) -> str:
        """Return the first line that the page shows below the first command that begins so."""
        return self.text.partition(f"$ {self.command(start)}\n")[2].partition("\n")[0]

    def _here(self, start: str) -> tuple[str, dict[str, str]]:
        command = self.filled(self.command(start))
        if "scripts/toy_" in command:
            command += f" --bootstrap {self._address}"
        command = re.sub(r"(?<!\S)\.venv/bin/purgatorio", f"{sys.executable} -m purgatorio", command)
        command = re.sub(r"(?<!\S)\.venv/bin/python", sys.executable, command)
        return command, {**os.environ, "PURGATORIO_ADMIN": f"http://{self._admin}"}

    def filled(self, text: str) -> str:
        """Return a text of the page with this cluster's addresses, and what else differs here."""
        for name, value in self.names.items():
            text = text.replace(name, value)
        return re.sub(r"(localhost|127\.0\.0\.1):9092", self._address, text).replace("localhost:9644", self._admin)

    def run(self, start: str) -> str:
        """Run a command of the page to its end; returns what it prints."""
        command, environ = self._here(start)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr

    def begin(self, start: str) -> Program:
        """Start a command of the page, as in a terminal of its own."""
        command, environ = self._here(start)
        printed = self._folder / f"{len(self._started)}.txt"
        with printed.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT
            )
        self._started.append(Program(process, printed))
        return self._started[-1]

    def until(self, start: str, pattern: str) -> re.Match[str]:
        """Run a command again and again until what it prints has the pattern."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (found := re.search(pattern, said := self.run(start))) is None:
            assert time.monotonic() < deadline, said
        return found

    def end(self) -> None:
        """End everything."""
        for each in self._started:
            each.process.send_signal(signal.SIGCONT)
            each.process.kill()
            each.process.wait(DEADLINE_SECONDS)
        self._cluster.terminate()
        self._cluster.communicate(timeout=DEADLINE_SECONDS)
        assert self._cluster.returncode == 0


@pytest.fixture(params=[False, True], ids=["one process", "processes"])
def tour(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[int], Tour]]:
    with contextlib.ExitStack() as stack:

        def tour(number: int) -> Tour:
            begun = Tour(number, request.param, tmp_path)
            stack.callback(begun.end)
            return begun

        yield tour


def test_tour_1_a_request_waits(tour: Callable[[int], Tour]) -> None:
    here = tour(1)
    producing = here.begin(".venv/bin/python scripts/toy_producer.py --acks all")
    here.run(".venv/bin/python scripts/toy_producer.py --acks all")  # the topic has a leader now
    said = producing.said()
    times = re.findall(r"orders-0 offset \d+: acknowledged after ([\d.]+) ms", said)
    assert len(times) == 10
    assert max(map(float, times)) >= 290
    here.begin(".venv/bin/python scripts/toy_producer.py --acks all")
    here.names = {'broker="1",': ".*"}  # whichever leads
    here.until("curl -s localhost:9644/metrics | grep 'num", r'delayedOperation="Produce"} 1\.0')
    here.names = {}
    assert "REQUEST_TIMED_OUT after" in here.run(".venv/bin/python scripts/toy_producer.py --records 1")
    assert re.search(r"expires_total.*} [1-9]", here.run("curl -s localhost:9644/metrics | grep delayedproduce"))
    for held in ("true", "false"):
        start = f"curl -s -X POST -H 'content-type: application/json' -d '{{\"held\": {held}"
        assert here.answer(start) in here.run(start)


def test_tour_2_a_broker_is_killed(tour: Callable[[int], Tour]) -> None:
    here = tour(2)
    producing = here.begin(".venv/bin/python scripts/toy_producer.py")
    killed = here.until(".venv/bin/purgatorio topics list", r"orders-0 +(\d+) ")[1]
    here.names = {"broker kill 1": f"broker kill {killed}", "broker start 1": f"broker start {killed}"}
    assert f"broker {killed} was killed; the others notice" in here.run(".venv/bin/purgatorio broker kill")
    here.until(".venv/bin/purgatorio topics list", rf"orders-0 +(?!{killed} )\d+ +[1-9]")
    said = here.run(".venv/bin/purgatorio broker start")
    assert f"broker {killed} is running and catches up with the leaders" in said
    said = producing.said()
    assert said.count("acknowledged after") == 1000
    assert "1000 records, 1000 different ones, 0 more than once" in here.run(".venv/bin/python scripts/toy_consumer.py")


@needs_kcat
def test_tour_3_a_consumer_group_rebalances(tour: Callable[[int], Tour]) -> None:
    here = tour(3)
    here.begin(".venv/bin/python scripts/toy_producer.py").until("acknowledged after")
    first = here.begin("kcat -b localhost:9092 -G billing -X client.id=app-1")
    here.begin("kcat -b localhost:9092 -G billing -X client.id=app-2")
    describe = ".venv/bin/purgatorio groups describe billing"
    both = r"Stable(?=(?s:.*)app-1-\S+ .*orders:)(?s:.*)app-2-\S+ .*orders:"
    here.until(describe, both)
    first.process.send_signal(signal.SIGSTOP)
    found = here.until(describe, r"Stable, generation \d+, assignor range, coordinator broker (\d)\n(?!(?s:.*)app-1)")
    here.names = {"broker kill 2": f"broker kill {found[1]}"}
    assert f"broker {found[1]} was killed" in here.run(".venv/bin/purgatorio broker kill")
    here.until(describe, rf"Stable, generation \d+, assignor range, coordinator broker (?!{found[1]})\d")


@needs_kcat
def test_tour_4_a_transaction_is_open(tour: Callable[[int], Tour]) -> None:
    here = tour(4)
    names: dict[str, Any] = {}
    for line in re.findall(r"^>>> (.*)$", here.text, re.MULTILINE):
        exec(here.filled(line), names)
    reading = here.begin("kcat -b localhost:9092 -C")
    here.until(".venv/bin/purgatorio txn list", r"billing-1 +Ongoing")
    said = here.run(".venv/bin/purgatorio txn abort billing-1")
    assert "the transaction of billing-1 is aborted, and its producer is fenced" in said
    with pytest.raises(KafkaException, match=r"fenced|FENCED|epoch"):
        names["producer"].commit_transaction()
    reading.process.kill()
    assert "paid" not in reading.said()


@needs_kcat
def test_tour_5_the_door_is_closed(tour: Callable[[int], Tour]) -> None:
    here = tour(5)
    for start in (".venv/bin/purgatorio acls add", ".venv/bin/purgatorio quotas set"):
        assert here.answer(start) in here.run(start)
    alice = here.command("alice=").removeprefix('alice="').removesuffix('"')
    # Where a reader waits for three seconds, a busy machine waits until alice is muted. kcat would go on for minutes.
    muted = ".venv/bin/purgatorio parked list | grep -q Throttled"
    here.names = {"$alice": alice, "sleep 3": f"trap 'kill $!' EXIT; until {muted}; do sleep 0.5; done"}
    assert "Broker: Topic authorization failed" in here.run("echo rent")
    assert re.search(r"Throttled +\d+ +rdkafka .*user `alice` is muted for", here.run("seq 400000"))
