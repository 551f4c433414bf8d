"""The typed keywords of the test kit are those that settings and fault rules declare."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "keywords.py"
WRONG = """
from purgatorio.testing import Kafka, cluster


def wrong(kafka: Kafka) -> None:
    kafka.fault(errror="NONE")
    kafka.topic("orders", partitons=2)
    kafka.network("latency", latncy_ms=1)
    kafka.client_config("conflunt")
    with cluster(brokrs=2):
        pass


def right(kafka: Kafka) -> None:
    kafka.fault(api="Fetch", error="NOT_LEADER_OR_FOLLOWER", count=3)
    kafka.topic("orders", partitions=2, cleanup_policy="compact")
    with cluster(brokers=2, min_insync_replicas=1):
        pass
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("keywords_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_keywords_are_those_of_the_declarations(script: ModuleType) -> None:
    """After a change: `.venv/bin/python scripts/keywords.py --write`."""
    assert script.module() == script.MODULE.read_text(encoding="utf-8")


@pytest.mark.process
@pytest.mark.slow
def test_a_misspelt_keyword_is_a_type_error(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "wrong.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    wrong = [line for line in told.splitlines() if ": error: " in line]
    assert [int(line.split(":")[1]) for line in wrong] == [6, 7, 8, 9, 10], told
