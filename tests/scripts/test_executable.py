"""The one-file executable, and the wheel as `uvx` runs it: each is made, and a client uses its cluster."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer

from tests.compat.programs import run_install

BUILD_TIMEOUT_SECONDS: Final = 900

pytestmark = [pytest.mark.heavy, pytest.mark.process, pytest.mark.timeout(2 * BUILD_TIMEOUT_SECONDS)]

ROOT: Final = Path(__file__).resolve().parents[2]
LARGEST_BYTES: Final = 60_000_000
CPU_SECONDS: Final = 1.0
OWNED: Final = ("cluster", "--port", "0", "--print-json", "--with-parent", "--log-level", "error")


def use_a_cluster(*command: str) -> str:
    """Run a cluster by this command, produce and consume a record, and end it; the version that it told."""
    with subprocess.Popen([*command, *OWNED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with Producer({"bootstrap.servers": told["bootstrap"]}) as producer:
            producer.produce("orders", "tea")
            assert producer.flush(20) == 0
        config = {"bootstrap.servers": told["bootstrap"], "group.id": "billing", "auto.offset.reset": "earliest"}
        with Consumer(config) as consumer:
            consumer.subscribe(["orders"])
            record = consumer.poll(20)
            assert record is not None
            assert record.value() == b"tea"
        process.communicate()
    assert process.returncode == 0
    return str(told["version"])


def test_one_file_is_a_cluster(tmp_path: Path) -> None:
    """It is small, starts with little work, and runs without Python and without this repository."""
    pack = [str(ROOT / "scripts" / "executable"), str(tmp_path)]
    run_install(pack, ROOT, {**os.environ, "PYTHON": sys.executable}, BUILD_TIMEOUT_SECONDS)
    executable = tmp_path / "purgatorio"
    assert executable.stat().st_size <= LARGEST_BYTES
    alone = {"PATH": "/nowhere", "HOME": str(tmp_path)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([executable, "--version"], cwd=tmp_path, env=alone, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.stdout.startswith("purgatorio ")
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < CPU_SECONDS
    assert use_a_cluster(str(executable)) == ran.stdout.split()[1]


def test_the_wheel_runs_by_uvx(tmp_path: Path) -> None:
    """`uvx` is `uv tool run`, and takes the package's name for the command's."""
    run_install([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path / "uv"), "uv"], tmp_path)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    run_install(build, tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    uv = str(tmp_path / "uv" / "bin" / "uv")
    run = [uv, "tool", "run", "--python", sys.executable, "--from", str(wheel), "purgatorio"]
    run_install([*run, "--version"], tmp_path)
    use_a_cluster(*run)
