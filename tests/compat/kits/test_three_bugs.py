"""The programs of docs/three-bugs.md: they pass as they stand; a bug put in is found by the test of its name."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat.kits.conftest import CLIENTS, ROOT, run
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS, found, run_install
from tests.java import SHORT, class_path

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3 * INSTALL_TIMEOUT_SECONDS)]

PAGE = (ROOT / "docs" / "three-bugs.md").read_text()
PROGRAMS = dict(re.findall(r"```\w+\n(?:#|//) (\S+)\n(.*?)```", PAGE, re.DOTALL))
BUG = re.compile(r"^([ \t]*)(\S.*?)  ?(?:#|//) bug: (.*)$", re.MULTILINE)
FRANZ_GO = "github.com/twmb/franz-go@v1.22.3"
"""The first versions of franz-go that know share groups are older than the one of the kit's own tests."""


class Language(NamedTuple):
    """The program's file, its tests in the order of the bugs, and what names one of them that failed."""

    file: str
    tests: tuple[str, ...]
    failed: str


LANGUAGES = {
    "python": Language(
        "test_three_bugs.py",
        ("test_a_lost_commit", "test_a_zombie_producer", "test_a_lock_that_ran_out"),
        r"^FAILED \S+::(\w+)",
    ),
    "javascript": Language(
        "three_bugs.test.mjs",
        ("a lost commit", "a zombie producer", "a lock that ran out"),
        r"^ FAIL  \S+ > (.+)$",
    ),
    "go": Language(
        "three_bugs_test.go", ("TestALostCommit", "TestAZombieProducer", "TestALockThatRanOut"), r"^--- FAIL: (\w+)"
    ),
    "java": Language(
        "ThreeBugsTest.java",
        ("aLostCommit", "aZombieProducer", "aLockThatRanOut"),
        r"JUnit Jupiter:ThreeBugsTest:(\w+)\(Kafka\)",
    ),
}


def with_bug(program: str, nth: int) -> str:
    """The program with its nth bug put in."""
    place = list(BUG.finditer(program))[nth]
    return f"{program[: place.start()]}{place[1]}{place[3]}{program[place.end() :]}"


def runner(language: str, folder: Path, cache: pytest.Cache) -> Callable[[], tuple[int, str]]:
    """What runs the program in a folder, into which this brings its client."""
    if language == "python":
        (folder / "pytest.ini").write_text("[pytest]\nkafka_leaks = error\n")
        command = [sys.executable, "-m", "pytest", "-p", "pytest_purgatorio", "-p", "no:cacheprovider", "-q"]
        return lambda: run(command, folder, {"PYTHONPATH": str(ROOT)})
    if language == "javascript":
        node, npm = found("node", "Node.js"), found("npm", "npm")
        shutil.copy(CLIENTS / "javascript" / "test" / "package.json", folder)
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--silent"]
        run_install([npm, "install", *quiet, "--install-links", str(CLIENTS / "javascript")], folder)
        return lambda: run([node, "node_modules/vitest/vitest.mjs", "run", "--testTimeout=60000"], folder)
    if language == "go":
        go = found("go", "Go")
        run_install([go, "mod", "init", "bugs"], folder)
        needed = [f"-require={FRANZ_GO}", "-require=purgatorio@v0.0.0", f"-replace=purgatorio={CLIENTS / 'go'}"]
        run_install([go, "mod", "edit", *needed], folder)
        run_install([go, "mod", "tidy"], folder)
        return lambda: run([go, "test", "-count=1", "."], folder)
    path = class_path(CLIENTS / "java" / "pom.xml", cache)
    kit = sorted((CLIENTS / "java" / "src" / "main").rglob("*.java"))
    sources = [str(each) for each in (*kit, folder / "ThreeBugsTest.java")]
    compile_all = ["javac", *(f"-J{flag}" for flag in SHORT), "-cp", path, "-d", str(folder), *sources]
    launch = ["java", *SHORT, "-cp", f"{path}{os.pathsep}{folder}", "org.junit.platform.console.ConsoleLauncher"]
    shown = ["--select-class", "ThreeBugsTest", "--details=tree", "--disable-banner", "--disable-ansi-colors"]

    def compiled_and_run() -> tuple[int, str]:
        code, told = run(compile_all, folder)
        return (code, told) if code else run([*launch, "execute", *shown], folder)

    return compiled_and_run


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_bug_is_found_by_the_test_of_its_name(language: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    file, tests, failed = LANGUAGES[language]
    program = PROGRAMS[file]
    assert len(BUG.findall(program)) == len(tests)
    (tmp_path / file).write_text(program)
    if language == "java":
        found("javac", "a JDK")
        found("mvn", "Maven")
    run_program = runner(language, tmp_path, pytestconfig.cache)
    code, told = run_program()
    assert code == 0, told
    for nth, name in enumerate(tests):
        (tmp_path / file).write_text(with_bug(program, nth))
        code, told = run_program()
        assert (code != 0, set(re.findall(failed, told, re.MULTILINE))) == (True, {name}), told
