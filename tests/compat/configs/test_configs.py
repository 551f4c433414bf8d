"""Clients that change configs of a broker, also those that Kafka does not know."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from purgatorio.testing import cluster
from tests.compat.programs import Programs


@pytest.mark.ci
def test_kafkajs_sets_a_config_that_kafka_does_not_know(tmp_path: Path) -> None:
    """AlterConfigs replaces what was set before: the last name alone is set, and its value may be a password."""
    program = Programs(Path(__file__).parent, "configs", tmp_path)["kafkajs"]
    with cluster(brokers=1) as kafka:
        (bootstrap,) = kafka.bootstrap_servers
        done = subprocess.run([*program, bootstrap], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == {"log.cleanup.policy": "delete", "my.own.setting": None}
