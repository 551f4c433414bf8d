"""Java programs of tests: their class path, which Maven brings from Maven Central, how they are compiled, and flags."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.compat.programs import run_install

COMPILE_TIMEOUT_SECONDS: Final = 60
SHORT: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Flags of `java` for programs of some seconds: they take half of the CPU."""

needs_java = pytest.mark.skipif(
    any(shutil.which(program) is None for program in ("java", "javac", "mvn")) and not os.environ.get("CI"),
    reason="a JDK of Java 17 or Maven is not installed (Debian: apt-get install default-jdk-headless maven)",
)


def class_path(pom: Path, cache: pytest.Cache) -> str:
    """Return the class path of what a `pom.xml` depends on, which pytest's cache keeps for the next run.

    The test is skipped if Maven cannot reach Maven Central, and fails in CI.
    """
    key = f"purgatorio/class-path/{hashlib.sha256(pom.read_bytes()).hexdigest()}"
    known: str | None = cache.get(key, None)
    if known and all(Path(jar).exists() for jar in known.split(os.pathsep)):
        return known
    target = Path(cache.mkdir("purgatorio-maven")) / f"{os.getpid()}.txt"
    build = ["mvn", "-q", "-B", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={target}"]
    run_install(build, pom.parent, {**os.environ, "MAVEN_OPTS": " ".join(SHORT)})
    path = target.read_text().strip()
    target.unlink()
    cache.set(key, path)
    return path


def compiled(source: Path, path: str, folder: Path) -> str:
    """Compile a source file into a folder; return the class path with which its class runs."""
    command = ["javac", *(f"-J{flag}" for flag in SHORT), "-cp", path, "-d", str(folder), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr
    return os.pathsep.join([path, str(folder)])


def newest_java() -> tuple[str, int]:
    """Return the folder and the major version of the newest Java, in JAVA_HOME or where Linux keeps them; 0: none."""
    folders = [*Path("/usr/lib/jvm").glob("*"), *([Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else [])]
    found = [("", 0)]
    for folder in folders:
        release = folder / "release"
        if (folder / "bin" / "java").is_file() and release.is_file():
            version = re.search(r'JAVA_VERSION="(\d+)', release.read_text())
            found.append((str(folder), int(version.group(1)) if version else 0))
    return max(found, key=lambda each: each[1])
