"""Installs a schema registry into a folder of its own, with the tools of its language."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from purgatorio.registry.kinds import KINDS, Karapace, RegistryKind, RegistryUnavailable

KARAPACE_COMMIT: Final = "6dcc96fff88d03ff97e19ae1a1851c735a75ad73"
"""Version 6.2.0: a tag can be moved, a commit has one content."""
KARAPACE: Final = f"karapace @ git+https://github.com/Aiven-Open/karapace@{KARAPACE_COMMIT}"
"""It is published as source alone; pip needs git, Go and a C compiler for it."""
KARAPACE_PINS: Final = (
    f"https://raw.githubusercontent.com/Aiven-Open/karapace/{KARAPACE_COMMIT}/requirements/requirements.txt"
)
"""The version of each of its 94 dependencies, as its authors test it."""
KARAPACE_PYTHONS: Final = ((3, 12), (3, 13), (3, 14))
APICURIO: Final = "io.apicurio:apicurio-registry-app:3.3.3:tar.gz:all"
UNPACK: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"
INSTALL_TIMEOUT_SECONDS: Final = 1800
WORDS_TOLD: Final = 600
"""How many of the last characters that a failed tool printed are in the error."""


def install(name: str, source: str | None = None) -> Path:
    """Install a registry; return its folder. A registry that is installed already is removed first.

    Args:
        name: "karapace" or "apicurio".
        source: what pip, or Maven, takes instead of the version that is known to run: a requirement or a path, or
            coordinates.

    Raises:
        RegistryUnavailable: a tool is missing or fails; the message says which, and what it printed last.
    """
    if name not in KINDS:
        raise RegistryUnavailable(f"there is no schema registry {name!r}, only {' and '.join(KINDS)}")
    kind = KINDS[name]
    kind.folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(kind.folder, ignore_errors=True)
    try:
        if name == "karapace":
            _install_karapace(kind, [source] if source else [KARAPACE, "--requirement", KARAPACE_PINS])
        else:
            _install_apicurio(kind, source or APICURIO)
    except BaseException:
        shutil.rmtree(kind.folder, ignore_errors=True)
        raise
    return kind.folder


def _install_karapace(kind: RegistryKind, wanted: Sequence[str]) -> None:
    _run([_python(), "-m", "venv", str(kind.folder)])
    python = str(Karapace.python_in(kind.folder))
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted])
    _run([python, "-W", "ignore", "-c", "import karapace.core.schema_models"])


def _install_apicurio(kind: RegistryKind, source: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise RegistryUnavailable("Apicurio Registry is fetched by Maven, and there is no mvn on the PATH")
    with tempfile.TemporaryDirectory() as empty:  # not in a folder with a pom.xml of others
        where = [f"-Dartifact={source}", f"-DoutputDirectory={kind.folder}"]
        _run([maven, "-q", "-B", "--strict-checksums", UNPACK, *where], folder=empty)


def _python() -> str:
    """Return an interpreter of a version that Karapace takes.

    Raises:
        RegistryUnavailable: there is none.
    """
    if sys.version_info[:2] in KARAPACE_PYTHONS and not getattr(sys, "frozen", False):
        return sys.executable
    for major, minor in reversed(KARAPACE_PYTHONS):
        found = shutil.which(f"python{major}.{minor}")
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    raise RegistryUnavailable("Karapace needs Python 3.12, 3.13 or 3.14, and there is none on the PATH")


def _run(command: Sequence[str], folder: str | None = None) -> None:
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=folder,
            timeout=INSTALL_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RegistryUnavailable(f"{command[0]} took longer than {INSTALL_TIMEOUT_SECONDS // 60} minutes") from None
    if ran.returncode:
        told = ran.stdout.strip()[-WORDS_TOLD:]
        raise RegistryUnavailable(f"{Path(command[0]).name} failed, and said last: {told}")
