"""Brokers on three hosts with etcd keep what they acknowledged, whatever becomes of processes and links."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.soak.host_clients import Copying, Numbers, Read, create_topics, read_all
from tests.soak.hosts import ETCD, Hosts, why_not

SECONDS = float(os.environ.get("HOSTS_SECONDS", "60"))
SEED = int(os.environ.get("HOSTS_SEED", "1"))
CATCH_UP_SECONDS = 60

pytestmark = [
    pytest.mark.clients,
    pytest.mark.heavy,
    pytest.mark.skipif(bool(reason := why_not()), reason=reason),
]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path)
    with hosts.network():
        hosts.start_etcd()
        for name in hosts.names:
            hosts.start(name)
        yield hosts


class Faults:
    """What becomes of the hosts, one thing after another, as a seed has it; a broker is always there again."""

    def __init__(self, hosts: Hosts, seed: int) -> None:
        self._hosts = hosts
        self._rng = random.Random(seed)
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        """Let something happen, and be over."""
        fault: Callable[[str], None] = self._rng.choice(
            [self.kill, self.kill, self.stand_still, self.cut_off, self.cut_one_way, self.cut_from_etcd, self.etcd_away]
        )
        self.done[fault.__name__] += 1
        fault(self._rng.choice(self._hosts.names))
        for name in self._hosts.ended():
            self._hosts.kill(name)
            self._hosts.start(name)
            self.done["started again"] += 1

    def _for_a_while(self) -> None:
        time.sleep(self._rng.uniform(0.5, 8))

    def kill(self, name: str) -> None:
        """A broker is killed, and started again, with empty logs."""
        self._hosts.kill(name)
        self._for_a_while()
        self._hosts.start(name)

    def stand_still(self, name: str) -> None:
        """A broker's process stands still."""
        self._hosts.stand_still(name, self._rng.uniform(0.5, 10))

    def cut_off(self, name: str) -> None:
        """A host reaches nobody, and nobody reaches it; clients do."""
        for other in {ETCD, *self._hosts.names} - {name}:
            self._hosts.cut(name, other)
            self._hosts.cut(other, name)
        self._for_a_while()
        self._hosts.heal()

    def cut_one_way(self, name: str) -> None:
        """What a host sends to one other is lost."""
        self._hosts.cut(name, self._rng.choice(sorted({ETCD, *self._hosts.names} - {name})))
        self._for_a_while()
        self._hosts.heal()

    def cut_from_etcd(self, name: str) -> None:
        """A host is cut off from etcd, in both directions or one."""
        self._hosts.cut(name, ETCD)
        if self._rng.random() < 0.5:
            self._hosts.cut(ETCD, name)
        self._for_a_while()
        self._hosts.heal()

    def etcd_away(self, name: str) -> None:
        """Etcd is killed, or stands still."""
        if self._rng.random() < 0.5:
            self._hosts.stand_still(ETCD, self._rng.uniform(0.5, 6))
        else:
            self._hosts.kill(ETCD)
            self._for_a_while()
            self._hosts.start_etcd()


def values(read: Read) -> dict[int, list[bytes]]:
    return {partition: [value for _, value in records] for partition, records in read.items()}


@pytest.mark.timeout(SECONDS + 600)
def test_nothing_acknowledged_is_lost_or_doubled(hosts: Hosts, record_property: pytest.RecordProperty) -> None:
    create_topics(hosts.bootstrap, "numbers", "copied")
    numbers, copying = Numbers(hosts.bootstrap, "numbers"), Copying(hosts.bootstrap, "numbers", "copied")
    faults = Faults(hosts, SEED)
    numbers.start()
    copying.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(3)
        faults.one()
        time.sleep(4)  # a broker that was away is in sync again: two at once may take both copies of a record
    numbers.stop()
    read = read_all(hosts.bootstrap, "numbers")
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while values(copied := read_all(hosts.bootstrap, "copied")) != values(read) and time.monotonic() < deadline:
        time.sleep(1)
    copying.stop()
    count = sum(map(len, numbers.acknowledged.values()))
    pauses = sorted(numbers.pauses)[-3:]
    record_property(
        "note",
        f"hosts, {SECONDS:.0f} s: {count} records acknowledged, {copying.transactions} transactions, faults "
        f"{dict(faults.done)}, longest pauses {', '.join(f'{each:.1f} s' for each in pauses)}",
    )
    assert numbers.check(read) == []
    assert values(copied) == values(read)
    assert count > SECONDS
