"""What a program gets when it imports `purgatorio`, and a shell when it runs it."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import purgatorio
from purgatorio.admin.cli.build import build

pytestmark = pytest.mark.process


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_the_version_is_the_distributions() -> None:
    assert purgatorio.__version__ == version("purgatorio")
    assert run("-m", "purgatorio", "--version").stdout == f"purgatorio {purgatorio.__version__} ({build()})\n"


def test_the_public_names_are_there_and_typed() -> None:
    assert set(purgatorio.__all__) <= set(dir(purgatorio))
    for name in purgatorio.__all__:
        assert getattr(purgatorio, name)
    assert (Path(purgatorio.__file__).parent / "py.typed").is_file()
    with pytest.raises(AttributeError, match="no attribute 'Clutser'"):
        _ = purgatorio.Clutser


def test_importing_the_package_loads_none_of_its_parts() -> None:
    """Their dependencies are loaded with the first name that needs them."""
    script = (
        "import sys, purgatorio\n"
        "heavy = ('asyncio', 'pydantic', 'structlog', 'starlette', 'uvicorn', 'importlib.metadata')\n"
        "print([name for name in sys.modules if name in heavy or name.startswith('purgatorio.')])"
    )
    assert run("-c", script).stdout == "['purgatorio.moved']\n"  # finds old names of modules


def test_a_cluster_is_imported_without_the_web_framework_and_structlog() -> None:
    script = (
        "import sys\n"
        "from purgatorio import BrokerConfig, Cluster, ClusterConfig\n"
        "print([name for name in ('structlog', 'starlette', 'uvicorn') if name in sys.modules])"
    )
    assert run("-c", script).stdout == "[]\n"


def test_the_module_is_the_command() -> None:
    without = run("-m", "purgatorio")
    assert (without.returncode, without.stdout) == (2, "")
    assert without.stderr.endswith("See purgatorio --help\n")
    shown = run("-m", "purgatorio", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("usage: purgatorio ")
