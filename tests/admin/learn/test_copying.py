"""What users copy of a scene is run as it was served: the pytests in one run, and the shell scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from purgatorio.admin.learn.scene import scenes
from tests.admin.learn.learning import COMMAND, get, learning

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def admin_url() -> Iterator[str]:
    with learning() as url:
        yield url


def test_the_copied_tests_pass(admin_url: str, tmp_path: Path) -> None:
    """All of them in one run, with leaks as errors; they are formatted as ruff does it."""
    for name in scenes():
        served = get(f"{admin_url}/api/v1/scenes/{name}")["pytest"]
        (tmp_path / f"test_{name.replace('-', '_')}.py").write_text(served)
    (tmp_path / "pytest.ini").write_text("[pytest]\nkafka_leaks = error\nkafka_faults = error\n")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "-p", "no:asyncio"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{len(scenes())} passed" in done.stdout, done.stdout + done.stderr
    ruff = [sys.executable, "-m", "ruff", "format", "--check", "--isolated", "--line-length", "120", str(tmp_path)]
    formatted = subprocess.run(ruff, capture_output=True, text=True, check=False)
    assert formatted.returncode == 0, formatted.stdout


@pytest.mark.parametrize("name", scenes())
def test_a_copied_shell_script_plays_the_scene(admin_url: str, tmp_path: Path, name: str) -> None:
    """It ends by itself, and the cluster is empty again."""
    described = get(f"{admin_url}/api/v1/scenes/{name}")
    script = tmp_path / "scene.sh"
    script.write_text(described["shell"])
    environment = {**os.environ, "PURGATORIO_ADMIN": admin_url, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith('"state":"ended"}')
    assert get(f"{admin_url}/api/v1/scenes")["playing"] is None
