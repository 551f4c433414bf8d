"""The settings that follow what the machine has."""

import os
from pathlib import Path

import pytest

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.by_room import connection_limits
from purgatorio.broker.config.declare import SettingsError
from purgatorio.broker.config.memory_shares import shares_of
from purgatorio.broker.node import machine
from purgatorio.broker.node.machine import MAX_LOGS_BYTES, MIN_LOGS_BYTES, fitted, usable_memory_bytes
from tests.compiled import replaces_functions

pytestmark = replaces_functions

MIB = 1024**2
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


def test_what_is_set_of_the_logs_says_what_the_broker_may_take() -> None:
    config = fitted(BrokerConfig(log_memory_bytes=96 * MIB), 3, 64 * GIB)
    assert config.memory_bytes == 128 * MIB
    assert config.queued_max_request_bytes == connection_limits(config).unsent_memory_bytes == 16 * MIB
    assert (config.socket_request_max_bytes, config.replica_fetch_response_max_bytes) == (32 * MIB, 4 * MIB)


def test_what_is_set_of_the_memory_says_what_each_kind_may_take() -> None:
    config = fitted(BrokerConfig(memory_bytes=GIB, queued_max_request_bytes=3 * MIB), 3, 64 * GIB)
    assert (config.memory_bytes, config.log_memory_bytes) == (GIB, 768 * MIB)
    assert connection_limits(config).request_memory_bytes == 3 * MIB
    assert (config.socket_request_max_bytes, config.replica_fetch_response_max_bytes) == (100 * MIB, 10 * MIB)


def test_the_logs_cannot_have_more_than_all() -> None:
    with pytest.raises(SettingsError, match="log_memory_bytes is 2000000, but it is a part of memory_bytes, 1500000"):
        BrokerConfig(memory_bytes=1_500_000, log_memory_bytes=2_000_000)


def test_a_machine_that_does_not_tell_its_memory_gets_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(os, "sysconf", unknown)
    assert usable_memory_bytes() is None
    config = fitted(BrokerConfig(), 3, None)
    assert not {"memory_bytes", "log_memory_bytes"} & config.model_fields_set
    assert config.log_memory_bytes == shares_of(config.memory_bytes).logs
    assert connection_limits(config).request_memory_bytes == shares_of(config.memory_bytes).requests
