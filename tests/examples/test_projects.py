"""Each project in examples/, as a stranger runs it: the wheel and the project's requirements in a fresh environment.

pip asks the package index, as a stranger's does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.projects import PROJECTS

pytestmark = [pytest.mark.heavy, pytest.mark.process, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
DROPPED = ("PURGATORIO_", "COVERAGE_", "PYTEST_", "PYTHON")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is removed at once: pytest keeps its own, and Spark takes half a gigabyte."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def run(folder: Path, *command: str) -> str:
    """What a command prints, without the settings of these tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("project", PROJECTS)
def test_a_project_finds_its_bug_and_its_fix_passes(project: str, wheel: Path, folder: Path) -> None:
    """The test of the code with the bug is expected to fail; if it passed, that would be an error."""
    copied = shutil.copytree(
        ROOT / "examples" / project, folder / project, ignore=shutil.ignore_patterns("__pycache__", ".*")
    )
    venv.create(folder / "venv")
    scripts = Path(sysconfig.get_path("scripts", "venv", {"base": str(folder / "venv")}))
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install", "--quiet"]
    run(copied, *pip, str(wheel), "-r", "requirements.txt")
    told = run(copied, str(scripts / "pytest"))
    assert f" {PROJECTS[project]} passed, 1 xfailed" in told.splitlines()[-1], told
