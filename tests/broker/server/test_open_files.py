"""Connections stay below the limit of open files, and a broker that has none left says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.node.machine import fitted
from purgatorio.broker.server import open_files
from purgatorio.purgatory.clock import ManualClock
from tests.broker.server.test_listener import Start
from tests.logs import capture_logs

resource = pytest.importorskip("resource", reason="this system has no limits of open files")

SetLimit = Callable[[int], None]


@pytest.fixture
def set_soft_limit() -> Iterator[SetLimit]:
    """Sets the soft limit of open files of this process, until the test ends."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda files: resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def test_the_soft_limit_is_raised_as_far_as_the_hard_one_allows(set_soft_limit: SetLimit) -> None:
    set_soft_limit(512)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = open_files.WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, open_files.WANTED_FILES)
    assert open_files.raise_limit() == wanted == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert open_files.raise_limit() == wanted, "a second time changes nothing"


def test_a_limit_that_the_system_refuses_to_raise_stays(
    set_soft_limit: SetLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    set_soft_limit(512)
    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", refuse)
        assert open_files.raise_limit() == 512


def test_a_system_without_the_limit_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "resource", None)
    assert open_files.raise_limit() is None
    assert open_files.connections_per_broker(3) is None


def test_the_brokers_of_a_process_share_its_files(set_soft_limit: SetLimit) -> None:
    set_soft_limit(1_024)
    cluster = Cluster(ClusterConfig(brokers=3, port=0, admin_port=0))
    assert [broker.config.max_connections for broker in cluster.brokers] == [256] * 3


def test_connections_of_clients_leave_files_for_those_between_many_brokers(set_soft_limit: SetLimit) -> None:
    set_soft_limit(1_024)
    own = open_files.OWN_FILES + open_files.FILES_PER_BROKER_PAIR * 10 * 9 // 2
    assert open_files.connections_per_broker(10) == (1_024 - own) // 10
    set_soft_limit(128)
    assert open_files.connections_per_broker(10) == 1, "a broker that nobody can connect to is no broker"


def test_one_address_does_not_get_all_connections_that_the_files_allow(set_soft_limit: SetLimit) -> None:
    set_soft_limit(1_024)
    config = fitted(BrokerConfig(), brokers=3, memory_bytes=None)
    assert (config.max_connections, config.max_connections_per_ip) == (256, 192)
    assert fitted(BrokerConfig(max_connections_per_ip=250), brokers=3, memory_bytes=None).max_connections_per_ip == 250


def test_a_cap_of_the_user_that_the_files_do_not_allow_is_lowered_with_a_warning(set_soft_limit: SetLimit) -> None:
    set_soft_limit(1_024)
    with capture_logs() as logs:
        assert fitted(BrokerConfig(), brokers=1, memory_bytes=None).max_connections == 768
        assert logs == []
        assert fitted(BrokerConfig(max_connections=5_000), brokers=1, memory_bytes=None).max_connections == 768
    (line,) = logs
    assert (line["wanted"], line["allowed"], line["open_files"]) == (5_000, 768, 1_024)


def test_a_lower_cap_of_the_user_stays(set_soft_limit: SetLimit) -> None:
    set_soft_limit(1_024)
    cluster = Cluster(ClusterConfig(brokers=1, port=0, admin_port=0, broker={"max_connections": 50}))
    assert cluster.brokers[0].config.max_connections == 50


async def test_a_listener_says_once_that_no_file_is_left(
    start_listener: Start, set_soft_limit: SetLimit, clock: ManualClock
) -> None:
    listener = await start_listener()
    with capture_logs() as logs:
        listener.sweep()
        assert logs == []
        set_soft_limit(3)
        listener.sweep()
        listener.sweep()
        set_soft_limit(512)
        listener.sweep()
    assert [line["event"] for line in logs] == ["no open file is left: new clients are refused"]
    assert logs[0]["limit"] == 3
