"""A cluster in a process of its own that has little time: busy processes beside it, or a share of a core for it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CPU_CGROUPS: Final = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
"""Where cgroups of version 1 and 2 have what limits CPU."""
PERIOD_MICROSECONDS: Final = 100_000
MAX_PLACEMENTS: Final = 1_000
SLICE_SECONDS: Final = 0.005
"""How long a throttled process runs at a time, where there is no cgroup."""


class LoggedCluster:
    """`purgatorio cluster`; its log goes to a file, so that it never waits for a reader."""

    def __init__(self, log: Path, *settings: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "purgatorio", "cluster", "--port", "0", "--admin-port", "0"]
        for setting in settings:
            command += ["--set", setting]
        environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with log.open("w") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environ)
        greeting = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            greeting += line
            if "Ctrl-C" in line:
                break
        self.bootstrap = ",".join(re.findall(r"broker \d+ +(\S+:\d+)", greeting))
        page = re.search(r"page +(http\S+)", greeting)
        assert page is not None, f"the cluster did not start: {log.read_text()}"
        self._page = page[1].rstrip("/")

    def lines(self, words: str) -> list[str]:
        """Return the lines of the log in which a regular expression is found."""
        return [line for line in self._log.read_text().splitlines() if re.search(words, line)]

    def elections(self) -> int:
        """Return how many leaders were elected since their partitions were created."""
        with urllib.request.urlopen(f"{self._page}/api/v1/topics?limit={MAX_PLACEMENTS}", timeout=60) as response:
            answer = json.load(response)
        assert answer["partition_count"] == len(answer["partitions"])
        return sum(each["leader_epoch"] for each in answer["partitions"])

    def cpu_seconds(self) -> float:
        """Return the CPU time that the cluster has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Stop it as Ctrl-C does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(60)


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Let so many processes compute."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


@contextlib.contextmanager
def share_of_a_core(pid: int, share: float) -> Iterator[None]:
    """Give a process no more than this share of a core: by a cgroup, or by SIGSTOP and SIGCONT in turn."""
    cgroup = _new_cgroup(share)
    if cgroup is None:
        with _stopped_in_turn(pid, share):
            yield
        return
    (cgroup / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        (cgroup.parent / "cgroup.procs").write_text(str(pid))
        cgroup.rmdir()


def _new_cgroup(share: float) -> Path | None:
    quota = int(share * PERIOD_MICROSECONDS)
    for parent in CPU_CGROUPS:
        cgroup = parent / f"purgatorio-{os.getpid()}"
        try:
            cgroup.mkdir()
        except OSError:
            continue
        try:
            if not (cgroup / "cgroup.procs").exists():
                raise FileNotFoundError(f"{parent} has no cgroups")
            if (cgroup / "cpu.cfs_quota_us").exists():
                (cgroup / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
                (cgroup / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (cgroup / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        except OSError:
            cgroup.rmdir()
            continue
        return cgroup
    return None


@contextlib.contextmanager
def _stopped_in_turn(pid: int, share: float) -> Iterator[None]:
    over = threading.Event()

    def throttle() -> None:
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(SLICE_SECONDS * (1 / share - 1))
            os.kill(pid, signal.SIGCONT)
            time.sleep(SLICE_SECONDS)

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
