"""Frameworks that people use with Kafka: each consumes from a cluster and produces to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from purgatorio.registry import free_port
from purgatorio.testing import Kafka, cluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS, found, run_install
from tests.java import SHORT, class_path, compiled

FOLDER = Path(__file__).parent
PATIENCE_SECONDS = 240
END_TIMEOUT_SECONDS = 30
FRAMEWORKS: dict[str, dict[str, Any]] = {
    each["name"]: each for each in tomllib.loads((FOLDER / "frameworks.toml").read_text())["framework"]
}
PYTHON = ("FastStream", "Quix Streams", "Faust", "Bytewax")
JAVA = {"Spring Kafka": "spring", "Flink": "flink"}
FLINK_OPENS = ("java.base/java.util", "java.base/java.lang", "java.base/java.time")
"""What Flink's start script opens to its serializers."""

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 3 * PATIENCE_SECONDS)]


@contextmanager
def running(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Iterator[Callable[[], str]]:
    """A program that runs in a folder; gives what returns its output, and checks that it runs still."""
    log = folder / "output.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )

        def told() -> str:
            text = log.read_text(errors="replace")[-4000:]
            assert process.poll() is None, text
            return text

        try:
            yield told
        finally:
            process.terminate()
            try:
                process.wait(END_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until(done: Callable[[], bool], told: Callable[[], str]) -> None:
    """Wait until something is done."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < end, told()
        told()
        time.sleep(0.1)


def committed(kafka: Kafka, topic: str) -> list[bytes | None]:
    """The values of a topic without those of open and aborted transactions, in any order of the partitions; sorted."""
    try:
        records = kafka.records(topic, isolation_level="read_committed")
    except ValueError:  # the topic is not there yet
        return []
    return sorted((record.value for record in records), key=lambda value: value or b"")


def orders_are_billed(kafka: Kafka, command: Sequence[str], folder: Path) -> None:
    """Run a program that bills what is ordered; orders that come while it runs are billed too."""
    kafka.topic("orders", partitions=2)
    kafka.topic("bills")
    kafka.produce("orders", "tea")
    with running(command, folder, {"BOOTSTRAP": kafka.bootstrap, "PYTHONPATH": str(FOLDER)}) as told:
        until(lambda: committed(kafka, "bills") == [b"tea billed"], told)
        kafka.produce("orders", "cake", partition=1)
        until(lambda: committed(kafka, "bills") == [b"cake billed", b"tea billed"], told)


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_framework_bills_orders(name: str, tmp_path: Path) -> None:
    framework = FRAMEWORKS[name]
    run_install([sys.executable, "-m", "venv", "env"], tmp_path)
    python = str(tmp_path / "env" / "bin" / "python")
    wanted = f"{framework['package']}=={framework['version']}"
    run_install([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted], tmp_path)
    command = [python, str(FOLDER / framework["program"])]
    if name == "Faust":
        command += ["worker", "--without-web", "--loglevel", "warn"]
    if name == "Bytewax":
        command = [python, "-m", "bytewax.run", "bytewax_billing:flow"]
    with cluster() as kafka:
        orders_are_billed(kafka, command, tmp_path)


def java_command(folder: str, tmp_path: Path, cache: pytest.Cache, main: str | None = None) -> list[str]:
    """The command that runs a class: that of the artifacts in a folder's pom.xml, or its own, which is compiled."""
    for program, name in (("java", "Java"), ("javac", "a JDK"), ("mvn", "Maven")):
        found(program, name)
    path = class_path(FOLDER / folder / "pom.xml", cache)
    if main is None:
        path = compiled(FOLDER / folder / "Billing.java", path, tmp_path)
    opened = [f"--add-opens={each}=ALL-UNNAMED" for each in FLINK_OPENS] if folder == "flink" else []
    return ["java", *SHORT, *opened, "-cp", path, main or "Billing"]


@pytest.mark.parametrize("name", JAVA)
def test_a_java_framework_bills_orders_in_transactions(name: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    command = java_command(JAVA[name], tmp_path, pytestconfig.cache)
    with cluster() as kafka:
        orders_are_billed(kafka, command, tmp_path)


def properties(path: Path, **values: object) -> str:
    """Write a file of properties; its path."""
    lines = [f"{name.replace('_', '.')}={value}" for name, value in values.items()]
    path.write_text("\n".join(lines))
    return str(path)


def test_connect_runs_distributed_with_its_internal_topics(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """A source reads a file into a topic, and a sink writes it into another file; the internal topics are compacted."""
    command = java_command("connect", tmp_path, pytestconfig.cache, "org.apache.kafka.connect.cli.ConnectDistributed")
    url = f"http://127.0.0.1:{free_port('127.0.0.1')}"
    text = "org.apache.kafka.connect.storage.StringConverter"
    source, target = tmp_path / "orders.txt", tmp_path / "bills.txt"
    source.write_text("tea\ncake\n")
    with cluster() as kafka:
        worker = properties(
            tmp_path / "worker.properties",
            bootstrap_servers=kafka.bootstrap,
            group_id="connect",
            config_storage_topic="connect-configs",
            offset_storage_topic="connect-offsets",
            status_storage_topic="connect-status",
            offset_flush_interval_ms=200,
            exactly_once_source_support="enabled",
            key_converter=text,
            value_converter=text,
            listeners=url,
        )

        def ask(path: str, body: Any = None) -> Any:
            data = None if body is None else json.dumps(body).encode()
            with urlopen(Request(f"{url}{path}", data, {"Content-Type": "application/json"})) as answer:
                return json.load(answer)

        def is_up() -> bool:
            try:
                return ask("/connectors") == []
            except (URLError, ConnectionError):
                return False

        with running([*command, worker], tmp_path, {}) as told:
            until(is_up, told)
            files = "org.apache.kafka.connect.file.FileStream"
            for config in (
                {"name": "in", "connector.class": f"{files}SourceConnector", "file": str(source), "topic": "orders"},
                {"name": "out", "connector.class": f"{files}SinkConnector", "file": str(target), "topics": "orders"},
            ):
                ask("/connectors", {"name": config["name"], "config": config})
            until(lambda: committed(kafka, "orders") == [b"cake", b"tea"], told)
            until(lambda: target.exists() and target.read_text() == "tea\ncake\n", told)
            until(lambda: committed(kafka, "connect-offsets") != [], told)
        kafka.compact("connect-configs")


def test_mirror_maker_mirrors_a_topic(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    command = java_command("connect", tmp_path, pytestconfig.cache, "org.apache.kafka.connect.mirror.MirrorMaker")
    with cluster(brokers=1) as here, cluster(brokers=1) as there:
        here.topic("orders", partitions=2)
        here.produce("orders", "tea")
        replication = {
            f"{name}.replication.factor": 1
            for name in ("replication", "checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
        }
        storage = {f"{name}.storage.replication.factor": 1 for name in ("config", "offset", "status")}
        config = properties(
            tmp_path / "mirror.properties",
            **{
                "clusters": "here, there",
                "here.bootstrap.servers": here.bootstrap,
                "there.bootstrap.servers": there.bootstrap,
                "here->there.enabled": "true",
                "here->there.topics": "orders",
                "replication.factor": 1,
                "refresh.topics.interval.seconds": 1,
                "offset.lag.max": 0,
                **replication,
                **storage,
            },
        )
        with running([*command, config], tmp_path, {}) as told:
            until(lambda: committed(there, "here.orders") == [b"tea"], told)
            here.produce("orders", "cake", partition=1)
            until(lambda: committed(there, "here.orders") == [b"cake", b"tea"], told)


def test_each_framework_is_on_the_page() -> None:
    page = (FOLDER.parents[2] / "docs" / "frameworks.md").read_text()
    for framework in FRAMEWORKS.values():
        told = framework["outcome"].replace("-", " ")
        row = f"| {framework['name']} | {framework['version'] or '–'} | {framework['ran']} | {told} |"
        assert row in page
        assert not framework["program"] or (FOLDER / framework["program"]).exists()
