"""Three brokers take no more memory than they may, whatever clients send, and give back what they need no longer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.soak.memory_cgroup import MemoryCgroup, NoCgroup, memory_cgroup

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"
PROGRAM_BYTES = 150_000_000
"""A container needs so much more than the limit of its brokers."""

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel of others does not keep the peak of a process"),
]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/bench/memory.py."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("memory")


@contextmanager
def container(memory: ModuleType) -> Iterator[MemoryCgroup]:
    """A cgroup with the limit of brokers and 150 MB, in which the kernel has ended no process at the end."""
    with memory_cgroup(memory.BROKERS * memory.QUICK.limit_mib * memory.MIB + PROGRAM_BYTES) as cgroup:
        try:
            yield cgroup
        finally:
            assert not cgroup.kills


@pytest.mark.timeout(300)
def test_no_flood_takes_more_than_the_limit(memory: ModuleType, record_property: pytest.RecordProperty) -> None:
    taken = list(memory.measure(memory.QUICK))
    told = "\n".join(f"{each.row.name}: {each.row.measured} ({each.row.bar})" for each in taken)
    record_property("note", told)
    assert all(each.peak_bytes <= each.most_bytes for each in taken), told
    (settled,) = (each for each in taken if each.name == memory.SETTLED)
    assert settled.after_bytes <= settled.most_after_bytes, told
    assert sum(each.sent_bytes for each in taken) > memory.QUICK.limit_mib * memory.MIB, told


@pytest.mark.parametrize("seconds", [30, pytest.param(300, marks=pytest.mark.heavy)])
@pytest.mark.timeout(500)
def test_no_flood_kills_a_container_of_the_limit_and_150_mb(memory: ModuleType, seconds: float) -> None:
    try:
        with container(memory) as cgroup:
            taken = list(memory.measure(memory.QUICK, lasts_seconds=seconds, prefix=cgroup.prefix))
    except NoCgroup as error:
        pytest.skip(str(error))
    assert taken
