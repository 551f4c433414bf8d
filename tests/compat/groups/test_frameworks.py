"""The hello-worlds of frameworks that begin with a group; pip brings them into an environment of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.conftest import RunningCluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS, run_install

APPS = Path(__file__).parent / "apps"
FRAMEWORKS = ("faststream[kafka,confluent]>=0.6,<1", "quixstreams>=3.23,<4", "faust-streaming>=0.11,<1")
APP_TIMEOUT_SECONDS = 60
COUNT = 5

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 2 * APP_TIMEOUT_SECONDS)]

RunApp = Callable[..., list[str]]


@pytest.fixture(scope="session")
def run_app(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> RunApp:
    """Runs an app of `apps/` with the cluster's addresses and further arguments; returns the lines that it prints."""
    folder = tmp_path_factory.mktemp("frameworks")
    run_install([sys.executable, "-m", "venv", str(folder)], folder)
    python = str(folder / "bin" / "python")
    run_install([python, "-m", "pip", "install", "--quiet", *FRAMEWORKS], folder)

    def run(name: str, *arguments: str) -> list[str]:
        command = [python, str(APPS / f"{name}_app.py"), cluster.bootstrap, *arguments, str(COUNT)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=APP_TIMEOUT_SECONDS, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout.splitlines()

    return run


@pytest.mark.parametrize("client", ["kafka", "confluent"])
def test_faststream_greets(run_app: RunApp, topic: str, client: str) -> None:
    assert run_app("faststream", topic, client) == [f"Hello, user {number}!" for number in range(COUNT)]


def test_quix_streams_doubles_and_its_state_survives_it(run_app: RunApp, topic: str) -> None:
    first = [f"{number * 2} {number + 1}" for number in range(COUNT)]
    assert run_app("quix", topic) == first
    assert run_app("quix", topic) == [f"{number * 2} {number + 1 + COUNT}" for number in range(COUNT)]


def test_faust_counts_and_its_table_survives_it(run_app: RunApp, topic: str) -> None:
    runs = [run_app("faust", topic) for _ in range(2)]
    counted = [line for lines in runs for line in lines if line.startswith("word")]  # the other lines are its banner
    assert counted == [f"word {number + 1}" for number in range(2 * COUNT)]
