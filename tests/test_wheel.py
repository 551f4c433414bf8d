"""The wheel, and the wheel made from the sdist, in an empty environment beside files of our modules' names.

Neither pip nor the network is asked for dependencies: the environment sees those of the tests through a path file, in
which the tests' own installation of Purgatorio has no part.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(120),
]

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("purgatory", "protocol", "broker", "admin", "pipeline", "simulation", "testing")
LINKS = {("purgatorio", name) for name in FOLDERS}
PACKAGES = ("purgatorio", "pyspark_purgatorio")
PLUGIN = "pytest_purgatorio.py"
HOSTILE = 'raise RuntimeError("a file of the user\'s")\n'
CLUSTER = """
import asyncio
from purgatorio import Cluster, ClusterConfig

async def main():
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as cluster:
        print("serving at", cluster.bootstrap)

asyncio.run(main())
"""
SERVICE_TESTS = """
import unittest

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from purgatorio.testing import Kafka, cluster


async def bill(kafka: Kafka) -> None:
    async with AIOKafkaConsumer(
        "orders", group_id="billing", auto_offset_reset="earliest", **kafka.client_config("aiokafka", "consumer")
    ) as consumer:
        async with AIOKafkaProducer(**kafka.client_config("aiokafka")) as producer:
            record = await consumer.getone()
            await producer.send_and_wait("bills", record.value)


@pytest.mark.parametrize("nth", range(12))
async def test_an_order_is_billed(kafka: Kafka, nth: int) -> None:
    kafka.topic("orders")
    kafka.produce("orders", f"order {nth}")
    await bill(kafka)
    assert [record.value for record in kafka.records("bills")] == [b"order %d" % nth]


@pytest.mark.kafka(brokers=1, scope="session")
def test_one_broker(kafka: Kafka) -> None:
    assert kafka.brokers == [1]


def test_fails(kafka: Kafka) -> None:
    kafka.kill(2)
    assert False


class Billing(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.kafka = self.enterContext(cluster())

    async def test_an_order_is_billed(self) -> None:
        self.kafka.topic("orders")
        self.kafka.produce("orders", "paid")
        await bill(self.kafka)
"""


def build(*arguments: str) -> Path:
    """Build without an isolated environment, whose making would need the network; the wheel that was made."""
    out = Path(arguments[-1])
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *arguments[:-1], str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of the repository, and that of the sdist, which `build` makes by default."""
    folder = tmp_path_factory.mktemp("wheels")
    return {"repository": build("--wheel", str(folder / "a")), "sdist": build(str(folder / "b"))}


def files(wheel: Path) -> dict[str, int]:
    """Each file outside of the distribution's records, with its checksum."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.CRC for info in archive.infolist() if ".dist-info/" not in info.filename}


def in_repository() -> set[str]:
    """Where the files of the packages lie in a wheel."""
    folders = [(ROOT / name, PurePosixPath("purgatorio", name)) for name in FOLDERS]
    folders += [(ROOT / "purgatorio", PurePosixPath("purgatorio")), (ROOT / "plugins", PurePosixPath())]
    return {
        str(place / path.relative_to(folder).as_posix())
        for folder, place in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.relative_to(ROOT).parts[:2] not in LINKS
    }


def test_a_wheel_holds_the_packages_and_all_of_their_files(wheels: dict[str, Path]) -> None:
    held = set(files(wheels["repository"]))
    assert {name.split("/")[0] for name in held} == {*PACKAGES, PLUGIN}
    assert held == in_repository()
    for name in (
        "py.typed",
        "schemas/delayed_operation.v1.json",
        "admin/web/static/index.html",
        "broker/node/broker.py",
    ):
        assert f"purgatorio/{name}" in held


def test_the_wheel_of_the_sdist_holds_the_same(wheels: dict[str, Path]) -> None:
    assert files(wheels["sdist"]) == files(wheels["repository"])


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel of the repository or the sdist, and a folder with a user's own files."""

    of: str
    scripts: Path
    user: Path

    @property
    def environ(self) -> dict[str, str]:
        """The user's folder comes first wherever Python looks."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PURGATORIO_", "COVERAGE_"))}
        return kept | {"PYTHONPATH": str(self.user)}

    def run(self, *command: str) -> str:
        """What a command prints, from within the user's folder."""
        found = [str(self.scripts / command[0]), *command[1:]]
        done = subprocess.run(found, cwd=self.user, env=self.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout


# The sdist holds the same files, as a test sees.
@pytest.fixture(scope="module", params=["repository", pytest.param("sdist", marks=pytest.mark.heavy)])
def installed(
    request: pytest.FixtureRequest, wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    places = sysconfig.get_paths(vars={"base": str(folder / "venv"), "platbase": str(folder / "venv")}, scheme="venv")
    wheel = str(wheels[request.param])
    pip = [sys.executable, "-m", "pip", "--python", str(Path(places["scripts"]) / "python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", wheel], check=True)
    Path(places["purelib"], "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    user = folder / "user"
    for name in FOLDERS:
        (user / name).mkdir(parents=True)
        (user / name / "__init__.py").write_text(HOSTILE)
    for name in ("config", "cluster", "clock", "request", "logger"):
        (user / f"{name}.py").write_text(HOSTILE)
    return Installed(request.param, Path(places["scripts"]), user)


def test_the_environment_has_the_wheel_and_not_the_repository(installed: Installed) -> None:
    where = installed.run("python", "-c", "import purgatorio.broker as broker; print(broker.__file__)")
    assert Path(where.strip()).is_relative_to(installed.scripts.parent)


def test_the_users_files_are_what_the_user_imports(installed: Installed) -> None:
    """Otherwise the tests of this file would prove nothing."""
    for name in (*FOLDERS, "config"):
        with pytest.raises(AssertionError, match="RuntimeError: a file of the user's"):
            installed.run("python", "-c", f"import {name}")


def test_a_cluster_runs_in_a_program(installed: Installed) -> None:
    assert installed.run("python", "-c", CLUSTER).startswith("serving at 127.0.0.1:")


def test_the_module_and_the_command_tell_the_version(installed: Installed, wheels: dict[str, Path]) -> None:
    told = installed.run("python", "-m", "purgatorio", "--version")
    assert told == installed.run("purgatorio", "--version")
    assert told.split()[1] == wheels["repository"].name.split("-")[1]


def test_the_other_packages_are_imported(installed: Installed) -> None:
    """The Spark data source is found by name, and the delays' command starts."""
    assert installed.run("python", "-c", "import pyspark_purgatorio, purgatorio.pipeline.source") == ""
    assert installed.run("purgatorio-delays", "--help").startswith("usage: purgatorio-delays")


def test_the_tests_of_a_service_use_the_plugin(installed: Installed, tmp_path: Path) -> None:
    """In four processes; with the sdist's wheel by the option -p too, which is needed where entry points are off."""
    load = ["-p", PLUGIN.removesuffix(".py")] if installed.of == "sdist" else []
    (tmp_path / "test_service.py").write_text(SERVICE_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nfilterwarnings = error\nkafka_leaks = error\n")
    pytest_command = [
        str(installed.scripts / "python"),
        "-m",
        "pytest",
        "-n",
        "4",
        "-W",
        "default::DeprecationWarning",
        *load,
    ]
    environ = {name: value for name, value in installed.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(pytest_command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert "1 failed, 14 passed" in done.stdout, done.stdout + done.stderr
    assert "Kafka at the failed call" in done.stdout
    assert "2 (does not run)" in done.stdout


@pytest.fixture
def cluster(installed: Installed) -> Iterator[subprocess.Popen[str]]:
    command = [str(installed.scripts / "purgatorio"), "cluster", "--port", "0", "--admin-port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=installed.user, env=installed.environ, stdout=pipe, stderr=pipe, text=True
    ) as process:
        yield process
        process.kill()


def test_the_command_serves_until_it_is_stopped(cluster: subprocess.Popen[str]) -> None:
    assert cluster.stdout is not None
    assert any(line.startswith("Ctrl-C") for line in cluster.stdout)
    cluster.send_signal(signal.SIGTERM)
    assert cluster.wait() == 0
