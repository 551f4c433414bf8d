"""Every program in the package's README prints what the README says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import purgatorio.purgatory

README = Path(purgatorio.purgatory.__file__).with_name("README.md")
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
PROGRAM_AND_OUTPUT = re.compile(r"```python\n(.*?)```(?:(?!```).)*?```text\n(.*?)```", re.DOTALL)


def programs() -> list[tuple[str, str]]:
    return PROGRAM_AND_OUTPUT.findall(README.read_text())


def test_every_program_is_followed_by_its_output() -> None:
    assert [program for program, _ in programs()] == PROGRAM.findall(README.read_text())


@pytest.mark.process
@pytest.mark.parametrize("number", range(len(programs())))
def test_a_program_runs_prints_what_is_said_and_logs_nothing(number: int) -> None:
    program, output = programs()[number]
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert (ran.stdout, ran.stderr) == (output, "")


@pytest.mark.process
def test_the_folder_alone_is_enough(tmp_path: Path) -> None:
    """In an empty project, with the standard library alone: no package of ours, and none of others."""
    compiled = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
    shutil.copytree(README.parent, tmp_path / "purgatory", ignore=compiled)
    for number, (program, output) in enumerate(programs()):
        file = tmp_path / f"program_{number}.py"
        file.write_text(program.replace("purgatorio.purgatory", "purgatory"))
        command = [sys.executable, "-E", "-S", "-s", "-X", "dev", "-W", "error", str(file)]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
        assert (ran.stdout, ran.stderr) == (output, ""), program


@pytest.mark.process
@pytest.mark.slow
def test_the_programs_pass_mypy_strict(tmp_path: Path) -> None:
    for number, (program, _) in enumerate(programs()):
        (tmp_path / f"program_{number}.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", *sorted(map(str, tmp_path.glob("*.py")))]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
