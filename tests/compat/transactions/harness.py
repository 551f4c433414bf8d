"""Workers: real transactional clients, each in a process of its own, that do what the test tells them.

A worker is a program in `workers/` with the cluster's addresses as its argument. It reads commands from its standard
input and answers each with one line: `ok`, `values V,V,…`, `fenced` if the client says that another producer has taken
its transactional id, or `error …`.

* `init ID`: start a transactional producer.
* `begin`, `send TOPIC VALUE` (waits for the acknowledgement), `commit`, `abort`.
* `read TOPIC committed|uncommitted COUNT`: the values of the first records of partition 0 under this isolation.
* `copy SOURCE TARGET GROUP ID`: consume as a member of a group, and copy each record in a transaction with its offset,
  until standard input ends. It prints `copied COUNT` after each transaction, `aborted …` when it aborts one and goes
  back to what is committed, and `restarted …` when it makes a new producer and a new consumer.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

PATIENCE_SECONDS: Final = 90
"""As long as clients look for a dead coordinator, with waits that double."""
ROOT = Path(__file__).parents[3]


class Worker:
    """One worker.

    Args:
        command: its program.
        bootstrap: the cluster's addresses.
    """

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        self.lines: list[str] = []
        """What it has printed."""
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [*command, bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._changed:
                    self.lines.append(line.strip())
                    self._changed.notify_all()

    def ask(self, command: str) -> str:
        """Have a command done; returns the answer."""
        before = len(self.lines)
        self.start(command)
        self.wait_until(lambda: len(self.lines) > before, f"it answers {command!r}")
        return self.lines[before]

    def do(self, *commands: str) -> None:
        """Have commands done that succeed."""
        for command in commands:
            assert self.ask(command) == "ok", (command, self.lines[-1])

    def start(self, command: str) -> None:
        """Send a command whose answer may take its time."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def values(self, topic: str, isolation: str, count: int) -> list[str]:
        """Read the values of the first records of a topic."""
        verb, _, values = self.ask(f"read {topic} {isolation} {count}").partition(" ")
        assert verb == "values", values
        return values.split(",")

    @property
    def copied(self) -> int:
        """How many records it has copied in transactions that it knows to be committed."""
        return sum(int(line.split()[1]) for line in self.lines if line.startswith("copied "))

    def wait_until(self, condition: Callable[[], bool], what: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a condition on the lines holds."""
        with self._changed:
            assert self._changed.wait_for(condition, patience_seconds), f"{what}: not so after {self.lines[-20:]}"

    def wait_for_copies(self, count: int = 20, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until it has copied this many records more."""
        least = self.copied + count
        self.wait_until(lambda: self.copied >= least, f"it copies {count} records more", patience_seconds)

    def stop(self) -> None:
        """End its standard input, and wait until it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_SECONDS) == 0
        self._reader.join()

    def close(self) -> None:
        """Kill it if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._reader.join()
