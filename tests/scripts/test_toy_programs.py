"""The toy programs, run as a reader of the README runs them, against a broker in this process."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.client.link import StreamLink

pytestmark = pytest.mark.process

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PATIENCE_SECONDS = 20


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as running:
        yield running


async def start(script: str, *argv: str) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, SCRIPTS / script, *argv, stdout=PIPE, stderr=PIPE)


async def end(process: Process) -> tuple[int | None, str, str]:
    """Exit status, standard output and standard error."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, errors = await process.communicate()
    return process.returncode, said.decode(), errors.decode()


async def test_records_that_are_produced_are_consumed(cluster: Cluster) -> None:
    status, said, errors = await end(await start("toy_producer.py", "--bootstrap", cluster.bootstrap, "--records", "2"))
    assert (status, errors) == (0, "")
    assert said.count("acknowledged after") == 2
    status, said, errors = await end(await start("toy_consumer.py", "--bootstrap", cluster.bootstrap, "--records", "2"))
    assert (status, errors) == (0, "")
    assert "offset 0: 'record 0'" in said
    assert "offset 1: 'record 1'" in said


async def reading(cluster: Cluster) -> Process:
    """A consumer that has read one record and waits for the next."""
    await end(await start("toy_producer.py", "--bootstrap", cluster.bootstrap, "--records", "1"))
    consumer = await start("toy_consumer.py", "--bootstrap", cluster.bootstrap)
    assert consumer.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        await consumer.stdout.readline()
    return consumer


async def test_when_the_last_broker_is_gone_a_consumer_says_so_in_one_line(cluster: Cluster) -> None:
    consumer = await reading(cluster)
    bootstrap = cluster.bootstrap
    await cluster.stop()
    status, said, errors = await end(consumer)
    assert (status, said) == (1, "")
    assert errors.startswith(f"no broker answers: {bootstrap.split(',')[0]}: ")
    assert errors.count("\n") == 1


async def test_a_leader_that_is_killed_under_load_loses_nothing_that_was_acknowledged(cluster: Cluster) -> None:
    producing = await start("toy_producer.py", "--bootstrap", cluster.bootstrap, "--records", "300", "--retry")
    assert producing.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(100):
            await producing.stdout.readline()
    state = cluster.store.image.partition("orders", 0)
    assert state is not None
    bootstrap = cluster.bootstrap
    await cluster.kill_broker(state.leader)
    status, said, errors = await end(producing)
    assert (status, errors, said.count("acknowledged after")) == (0, "", 200)
    status, said, errors = await end(await start("toy_consumer.py", "--bootstrap", bootstrap, "--records", "300"))
    assert (status, errors) == (0, "")
    assert said.endswith("300 records, 300 different ones, 0 more than once\n")


async def test_a_producer_goes_on_when_the_only_broker_that_it_was_given_dies(cluster: Cluster) -> None:
    """It has learned of the other brokers, as a Kafka client does."""
    await end(await start("toy_producer.py", "--bootstrap", cluster.bootstrap, "--records", "1"))
    state = cluster.store.image.partition("orders", 0)
    assert state is not None
    (leader,) = (f"{host}:{port}" for broker_id, host, port in cluster.addresses if broker_id == state.leader)
    producing = await start("toy_producer.py", "--bootstrap", leader, "--records", "60", "--retry")
    assert producing.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(20):
            await producing.stdout.readline()
    await cluster.kill_broker(state.leader)
    status, said, errors = await end(producing)
    assert (status, errors, said.count("acknowledged after")) == (0, "", 40)


async def test_ctrl_c_ends_a_consumer_without_a_word(cluster: Cluster) -> None:
    consumer = await reading(cluster)
    consumer.send_signal(signal.SIGINT)
    assert await end(consumer) == (130, "", "")


async def test_no_broker_is_said_in_one_line() -> None:
    status, said, errors = await end(await start("toy_producer.py", "--bootstrap", "127.0.0.1:1"))
    assert (status, said) == (1, "")
    assert errors.startswith("no broker answers: 127.0.0.1:1: ")
    assert errors.count("\n") == 1


async def test_an_address_that_is_none_is_said_in_one_line() -> None:
    status, said, errors = await end(await start("toy_consumer.py", "--bootstrap", "127.0.0.1:1,localhost:x"))
    assert (status, said) == (2, "")
    assert errors.endswith("argument --bootstrap: 'localhost:x' has no port that is a number\n")


async def test_a_broker_may_hold_a_request_as_long_as_it_was_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    limits_ms: list[int] = []

    class Silent:
        closed = False

        async def request(self, *args: Any, timeout_ms: int) -> None:
            limits_ms.append(timeout_ms)
            raise TimeoutError

        def close(self) -> None:
            self.closed = True

    async def silent(*args: Any) -> Silent:
        return Silent()

    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.setattr(StreamLink, "open", silent)
    producer: Any = import_module("toy_producer")
    options = SimpleNamespace(bootstrap=[("one", 9092)], topic="orders", timeout_ms=90_000)
    with pytest.raises(producer.Unavailable):
        await producer.send_all(options)
    assert limits_ms[0] > options.timeout_ms
