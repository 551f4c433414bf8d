"""What three brokers take of the system's memory while clients flood them in every way, and what they give back."""

from __future__ import annotations

import itertools
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flood import Target, flood, readers_that_never_read, small_batches, steps, tiny_topics
from processes import Brokers, brokers
from purgatorio.broker.config import BrokerConfig
from rows import MET, MISSED, Row

MIB = 1024 * 1024
BROKERS = 3
SETTING = "memory.bytes" if "memory_bytes" in BrokerConfig.model_fields else "log.memory.bytes"
"""The setting that says what a broker may take."""
MOST_OF_LIMIT, ABOVE_BYTES = 1.10, 30_000_000
MOST_OF_KEPT = 1.05
BACK_SECONDS = 5
"""The time after a flood in which memory goes back to the system that is not needed any more."""
REPLICA_BYTES = 7_500
"""What a broker keeps of a partition besides its records: measured with 1,000 topics of one record."""


@dataclass(frozen=True)
class Sizes:
    """How large the floods are.

    Attributes:
        limit_mib: what each broker may take.
        seconds: how long a flood lasts, about.
        tiny: the number of tiny topics.
        times: how often to send as much as a broker may hold.
        steps: the number of sizes of records to step through.
        settles: whether memory has time to go back after each flood, or only after that of `SETTLED`.
    """

    limit_mib: int
    seconds: float
    tiny: int
    times: float
    steps: int
    settles: bool


@dataclass(frozen=True)
class Taken:
    """What a flood has taken of memory, in bytes, above the idle process.

    Attributes:
        name: which one.
        limit_bytes: what the brokers may take together.
        sent_bytes: records that the brokers took.
        peak_bytes: the most.
        after_bytes: what was left some seconds later.
        kept_bytes: what the brokers keep then.
    """

    name: str
    limit_bytes: int
    sent_bytes: int
    peak_bytes: int
    after_bytes: int
    kept_bytes: int

    @property
    def most_bytes(self) -> float:
        """What it may take."""
        return MOST_OF_LIMIT * self.limit_bytes + ABOVE_BYTES

    @property
    def most_after_bytes(self) -> float:
        """What may be left of it."""
        return MOST_OF_KEPT * self.kept_bytes + ABOVE_BYTES

    @property
    def is_met(self) -> bool:
        """Whether both are so."""
        return self.peak_bytes <= self.most_bytes and self.after_bytes <= self.most_after_bytes

    @property
    def row(self) -> Row:
        """A row of the table."""
        measured = (
            f"{self.peak_bytes / 1e6:.0f} MB ({self.peak_bytes / self.limit_bytes:.2f}× the limit), "
            f"then {self.after_bytes / 1e6:.0f} MB, of which the brokers keep {self.kept_bytes / 1e6:.0f}; "
            f"{self.sent_bytes / 1e6:.0f} MB were sent"
        )
        bar = f"≤ {self.most_bytes / 1e6:.0f} MB, then {self.most_after_bytes / 1e6:.0f}"
        return Row(f"memory: {self.name}", measured, bar, MET if self.is_met else MISSED)


class Resident:
    """The resident memory of a process above what it is when this is made."""

    def __init__(self, pid: int) -> None:
        self._process = Path(f"/proc/{pid}")
        self._idle_bytes = self._status("VmRSS")

    def _status(self, name: str) -> int:
        found = re.search(rf"^{name}:\s+(\d+) kB", (self._process / "status").read_text(), re.MULTILINE)
        assert found is not None, name
        return int(found[1]) * 1024

    def begin(self) -> None:
        """Forget the peak: the kernel keeps it, so that no moment is missed."""
        (self._process / "clear_refs").write_text("5")

    @property
    def now_bytes(self) -> int:
        """What is resident."""
        return self._status("VmRSS") - self._idle_bytes

    @property
    def peak_bytes(self) -> int:
        """The most since `begin`."""
        return self._status("VmHWM") - self._idle_bytes


QUICK = Sizes(limit_mib=64, seconds=1, tiny=500, times=3, steps=6, settles=False)
USUAL = Sizes(limit_mib=64, seconds=10, tiny=2_000, times=6, steps=21, settles=True)
SETTLED = "10 kB, with readers that never read"


def kept_bytes(running: Brokers) -> int:
    """What all brokers keep of records, as they count it, and of their replicas."""
    with urllib.request.urlopen(f"{running.admin_url}/metrics", timeout=30) as response:
        metrics = response.read().decode()
    return _sum_of(metrics, "purgatorio_log_memory_used_bytes") + REPLICA_BYTES * _sum_of(
        metrics, "kafka_server_replicamanager_partitioncount"
    )


def _sum_of(metrics: str, name: str) -> int:
    return int(sum(map(float, re.findall(rf"^{name}\{{.*\}} (\S+)", metrics, re.MULTILINE))))


def unread(target: Target) -> int:
    """Fill a topic; then go on while readers have asked for all of it, and read nothing."""
    sent_bytes = flood(target, "unread", 10_000, times=0.9)
    with readers_that_never_read(target, "unread"):
        return sent_bytes + flood(target, "beside", 10_000)


def floods(target: Target, sizes: Sizes) -> dict[str, Callable[[], int]]:
    """The floods in their order; each returns what it has sent."""
    return {
        "100 B, one by one": lambda: flood(target, "a", 100, one_by_one=True),
        "300 B, a record in each batch": lambda: small_batches(target, "b", 300),
        "10 kB": lambda: flood(target, "c", 10_000),
        "300 B, a record in each batch, again": lambda: small_batches(target, "b", 300),
        "500 kB": lambda: flood(target, "d", 500_000),
        "100 kB to 1 MB, 20 clients": lambda: flood(target, "h", (100_000, 1_000_000), clients=20),
        "5 MB": lambda: flood(target, "e", 5_000_000),
        "1 kB to 50 kB, zstd": lambda: flood(target, "f", (1_000, 50_000), codec="zstd"),
        "1 kB to 50 kB, gzip": lambda: flood(target, "g", (1_000, 50_000), codec="gzip"),
        SETTLED: lambda: unread(target),
        "steps from 64 B to 64 kB": lambda: steps(target, sizes.steps),
        f"{sizes.tiny:,} topics of one record": lambda: tiny_topics(target, sizes.tiny),
    }


def measure(sizes: Sizes, *, lasts_seconds: float = 0, prefix: Sequence[str] = ()) -> Iterator[Taken]:
    """Flood brokers in every way, one after the other: once, or again and again for some time.

    Args:
        prefix: a command that becomes the brokers' process.
    """
    limit_bytes = BROKERS * sizes.limit_mib * MIB
    with brokers(BROKERS, prefix=prefix, **{SETTING: sizes.limit_mib * MIB}) as running:
        resident = Resident(running.pids[0])
        target = Target(running.addresses, sizes.limit_mib * MIB, sizes.seconds, sizes.times)
        ways = floods(target, sizes)
        end_seconds = time.perf_counter() + lasts_seconds
        for number, (name, run) in enumerate(itertools.cycle(ways.items())):
            if time.perf_counter() > end_seconds if lasts_seconds else number == len(ways):
                return
            resident.begin()
            sent_bytes = run()
            if sizes.settles or name == SETTLED:
                time.sleep(BACK_SECONDS)
            yield Taken(name, limit_bytes, sent_bytes, resident.peak_bytes, resident.now_bytes, kept_bytes(running))


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    return [taken.row for taken in measure(QUICK if quick else USUAL)]
