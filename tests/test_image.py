"""The image without Docker: both stages of the Dockerfile, with what it copies and nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from tests.compat.programs import run_install

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
IGNORED = shutil.ignore_patterns("__pycache__", "*.so")
BUILD_TIMEOUT_SECONDS = 900
COMPILER = shutil.which("cc") is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def copied_to(folder: Path) -> Path:
    """A folder with what the Dockerfile copies, where it copies it."""
    for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            place = folder / target if (ROOT / source).is_dir() else folder / target / Path(source).name
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=IGNORED, symlinks=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)
    return folder


def test_both_stages_are_the_script() -> None:
    assert "RUN ./scripts/image-build wheels /wheels\n" in DOCKERFILE
    assert "    sh /image-build install /wheels \\\n" in DOCKERFILE
    assert "pip " not in DOCKERFILE


@pytest.mark.heavy
@pytest.mark.process
@pytest.mark.timeout(2 * BUILD_TIMEOUT_SECONDS)
def test_what_the_image_has_serves_clients(tmp_path: Path) -> None:
    """Its command runs from an environment with nothing else, and is the compiled build where there is a compiler."""
    script = str(copied_to(tmp_path / "source") / "scripts" / "image-build")
    wheels, environment = str(tmp_path / "wheels"), tmp_path / "env"
    # Clones of the suite compile by a flag of the environment: this is about what the script says by itself.
    hooks = {"HATCH_BUILD_HOOKS_ENABLE": "1" if COMPILER else "0"}
    run_install(
        [script, "wheels", wheels], tmp_path, {**os.environ, "PYTHON": sys.executable, **hooks}, BUILD_TIMEOUT_SECONDS
    )
    run_install([sys.executable, "-m", "venv", str(environment)], tmp_path)
    python = str(environment / "bin" / "python")
    run_install([script, "install", wheels], tmp_path, {**os.environ, "PYTHON": python})
    (command,) = re.findall(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)
    purgatorio, *words = json.loads(command)
    program = [str(environment / "bin" / purgatorio)]
    version = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True).stdout
    assert ("(compiled)" in version) == COMPILER, version
    free = shlex.split("--port 0 --print-json --with-parent --set admin.auth=none --advertised-host 127.0.0.1")
    with subprocess.Popen([*program, *words, *free], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owned:
        assert owned.stdout is not None
        told = json.loads(owned.stdout.readline())
        with Producer({"bootstrap.servers": told["bootstrap"]}) as producer:
            producer.produce("orders", "tea")
            assert producer.flush(20) == 0
        with urlopen(f"{told['admin_url'].replace('0.0.0.0', '127.0.0.1')}/readyz") as answer:
            assert answer.status == 200
        owned.communicate()
    assert owned.returncode == 0
