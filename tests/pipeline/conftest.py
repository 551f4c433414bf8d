"""Fixtures of the pipeline's tests: one Spark session for all tests, and a cluster in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import COVERAGE, PurgatorioProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]

needs_spark = [
    pytest.mark.spark,
    # In CI the tests fail without Java instead of being skipped.
    pytest.mark.skipif(
        shutil.which("java") is None and not os.environ.get("CI"),
        reason="Spark needs Java 17 or newer: install a JRE, e.g. openjdk-17-jre",
    ),
    pytest.mark.timeout(180),
    # Spark's Java gateway does not close its socket; the garbage collector does.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""The `pytestmark` of a module whose tests run in a Spark session."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small local session; all tests share it, since its start takes ten seconds."""
    pytest.importorskip("pyspark", reason="install purgatorio[spark]")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    from pyspark.sql import SparkSession

    # The coverage of Spark's Python processes is not measured: they take their environment from the Java process.
    coverage = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(COVERAGE)}
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    os.environ.update(coverage)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The addresses of a cluster's brokers."""
    process = PurgatorioProcess(("cluster", "--port", "0", "--admin-port", "0", "--log-level", "error"))
    yield servers_of(process.greeting())
    process.close()


def servers_of(greeting: str) -> str:
    """Return the brokers' addresses from a cluster's output after its start."""
    return ",".join(re.findall(r"broker \d+ +(\S+:\d+)", greeting))


def new_topic(servers: str, partitions: int, *, replicas: int = 1, **configs: str) -> str:
    """Create a topic that no other test uses, and return its name; names of configs have _ for dots."""
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"t-{uuid.uuid4().hex[:8]}"
    named = {config.replace("_", "."): value for config, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, partitions, replicas, config=named)])[name].result()
    return name
