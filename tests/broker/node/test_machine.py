"""The settings that follow what the machine has."""

import os
from pathlib import Path

import pytest

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.node import machine
from purgatorio.broker.node.machine import MAX_LOGS_BYTES, MIN_LOGS_BYTES, fitted, usable_memory_bytes
from tests.compiled import replaces_functions

pytestmark = replaces_functions

GIB = 1024**3


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file with the memory limit of this process's container, on a machine with 64 GiB."""
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CGROUP_LIMITS", (tmp_path / "not there", limit))
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 * 1024 * 1024}.__getitem__)
    return limit


@pytest.mark.parametrize(
    ("limit", "brokers", "expected"),
    [
        ("max\n", 3, MAX_LOGS_BYTES),
        (f"{6 * GIB}\n", 3, GIB // 2),
        (f"{6 * GIB}\n", 1, 3 * GIB // 2),
        (f"{GIB // 2}\n", 3, MIN_LOGS_BYTES),
    ],
)
def test_the_logs_of_all_brokers_take_a_quarter_of_the_memory(
    container: Path, limit: str, brokers: int, expected: int
) -> None:
    container.write_text(limit)
    assert fitted(BrokerConfig(), brokers, usable_memory_bytes()).log_memory_bytes == expected


def test_a_memory_cap_that_is_set_stays(container: Path) -> None:
    container.write_text(f"{GIB}\n")
    assert fitted(BrokerConfig(log_memory_bytes=7 * GIB), 3, usable_memory_bytes()).log_memory_bytes == 7 * GIB


def test_a_machine_that_does_not_tell_its_memory_gets_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(os, "sysconf", unknown)
    assert usable_memory_bytes() is None
    assert "log_memory_bytes" not in fitted(BrokerConfig(), 3, None).model_fields_set
