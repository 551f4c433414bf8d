"""The test kits for other languages, each in a folder of its own with the real clients that it is tried with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.compat.programs import found, run_install
from tests.java import SHORT, class_path

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = ROOT / "clients"
PAGE = ROOT / "docs" / "languages.md"
RUN_TIMEOUT_SECONDS = 120

Run = Callable[..., tuple[int, str]]
"""Runs a test file; returns the exit code, and what was printed."""


def run(command: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a command whose kit starts this repository's `purgatorio`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PURGATORIO")}
    own |= {"PURGATORIO": f"{sys.executable} -m purgatorio", "NO_COLOR": "1", **(environ or {})}
    ran = subprocess.run(
        command,
        cwd=folder,
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_TIMEOUT_SECONDS,
        check=False,
    )
    return ran.returncode, ran.stdout


def program(name: str) -> str:
    """The program of the page about languages with this file name."""
    (text,) = re.findall(rf"^```\w+\n// {re.escape(name)}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(text)


@pytest.fixture(scope="session")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs node with what npm has installed: ``javascript("vitest/vitest.mjs", "run", "kit")``."""
    node, npm = found("node", "Node.js"), found("npm", "npm")
    package = tmp_path_factory.mktemp("javascript") / "package"
    shutil.copytree(CLIENTS / "javascript", package)
    folder = package / "test"
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    run_install([npm, "install", *quiet, "--install-links", ".."], folder)
    (folder / "orders.vitest.mjs").write_text(program("orders.test.mjs"))
    return lambda script, *args: run([node, f"node_modules/{script}", *args], folder)


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs Go's tests: ``go("-run", "TestName")``."""
    command = found("go", "Go")
    package = tmp_path_factory.mktemp("go") / "package"
    shutil.copytree(CLIENTS / "go", package)
    folder = package / "test"
    (folder / "page").mkdir()
    (folder / "page" / "orders_test.go").write_text(program("orders_test.go"))
    run_install([command, "test", "-run", "NONE", "-exec", "true", "./..."], folder)
    return lambda *args, **environ: run([command, "test", "-count=1", *args], folder, environ)


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Run:
    """Runs the tests of classes of the Java kit: ``java("purgatorio.KitTest")``."""
    for each, name in (("java", "Java"), ("javac", "a JDK"), ("mvn", "Maven")):
        found(each, name)
    folder = tmp_path_factory.mktemp("java")
    path = class_path(CLIENTS / "java" / "pom.xml", pytestconfig.cache)
    (folder / "OrdersTest.java").write_text(program("OrdersTest.java"))
    sources = [*map(str, sorted((CLIENTS / "java" / "src").rglob("*.java"))), str(folder / "OrdersTest.java")]
    code, told = run(["javac", "-Xlint:all", "-Werror", "-cp", path, "-d", str(folder), *sources], folder)
    assert code == 0, told
    launcher = ["java", *SHORT, "-cp", f"{path}{os.pathsep}{folder}", "org.junit.platform.console.ConsoleLauncher"]
    shown = ["--details=tree", "--disable-banner", "--disable-ansi-colors"]
    return lambda name: run([*launcher, "execute", "--select-class", name, *shown], folder)
