"""The programs, the commands, the options and the report of docs/testing.md are true."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from purgatorio.admin.cli.main import main
from purgatorio.broker.layers.faults.rule import Rule
from purgatorio.broker.layers.faults.tier_rule import TierRule
from purgatorio.broker.layers.faults.toxic import TOXICS, Toxic
from purgatorio.testing import Kafka, cluster
from tests.testing.why import kept

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
PROGRAMS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
FAILING = "test_latest.py"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def python(folder: Path, *arguments: str) -> str:
    """What ``python …`` prints, in a folder of its own; how it ends is the caller's to check."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return ran.stdout + ran.stderr


def pytest_run(folder: Path, ini: str, *arguments: str) -> str:
    (folder / "pytest.ini").write_text(ini)
    return python(folder, "-m", "pytest", "-p", "pytest_purgatorio", "-p", "no:cacheprovider", *arguments)


def masked(line: str) -> str:
    """A line without its numbers."""
    return re.sub(r"\d+", "0", line).strip()


def test_every_program_has_a_name() -> None:
    assert len(PROGRAMS) == len(blocks("python"))


@pytest.mark.process
def test_the_tests_of_the_page_pass_and_leave_nothing_open(tmp_path: Path) -> None:
    """All but one, whose report the page shows."""
    for name, program in PROGRAMS.items():
        (tmp_path / name).write_text(f"# {name}\n{program}")
    ini = (
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        "kafka_leaks = error\nkafka_faults = error\n"
    )
    told = pytest_run(tmp_path, ini)
    passing = sum(len(re.findall(r"def test_", program)) for program in PROGRAMS.values()) - 1
    assert re.search(rf"1 failed, {passing} passed in", told), told
    assert f"FAILED {FAILING}" in told
    (report,) = blocks("text")
    lines = {masked(line) for line in told.splitlines()}
    assert [line for line in report.splitlines()[:2] if masked(line) not in lines] == [], told


def test_the_report_of_the_page_is_that_of_a_failing_test_that_is_kept() -> None:
    (report,) = blocks("text")
    assert (kept.FAILING / "latest.py").read_text(encoding="utf-8").endswith(f'"""\n\n{PROGRAMS[FAILING]}')
    text = (kept.FAILING / "latest.txt").read_text(encoding="utf-8")
    assert kept.lasting(report.partition("\n")[2]) == kept.lasting(text)


def test_each_mistake_is_on_the_page_with_the_first_line_of_its_report() -> None:
    words = " ".join(PAGE.split())
    lines = []
    for name in kept.NAMES:
        (mistake, *_) = ast.parse((kept.FAILING / f"{name}.py").read_text(encoding="utf-8")).body
        assert isinstance(mistake, ast.Expr)
        says = str(ast.literal_eval(mistake.value)).partition(".\n")[0]
        lines.append(f'* {says}: "{kept.first_line(name)}"')
    assert [line for line in lines if line not in words] == []


@pytest.mark.process
def test_the_test_on_the_first_screen_of_the_readme_passes_and_proves_something(tmp_path: Path) -> None:
    """The first program of the README is the fixture with a real client; without its fault it fails."""
    before, _, program = (ROOT / "README.md").read_text().partition("```python\n")
    assert before.count("\n") < 20
    program = program.partition("```\n")[0]
    without = program.replace("    kafka.hold_follower(3)\n", "")
    assert without != program
    (tmp_path / "test_readme.py").write_text(program)
    (tmp_path / "test_without.py").write_text(without)
    told = pytest_run(tmp_path, "[pytest]\nkafka_leaks = error\n")
    assert re.search(r"1 failed, 1 passed(, 1 warning)? in", told), told
    assert re.search(r"FAILED test_without\.py.* assert 0 == 1", told), told


@pytest.mark.process
def test_the_options_of_the_page_are_taken(tmp_path: Path) -> None:
    (ini,) = blocks("ini")
    (tmp_path / "test_it.py").write_text(
        "def test_it(kafka):\n    assert kafka.brokers == [1]\n    assert kafka.topic('orders', partitions=2)\n"
    )
    told = pytest_run(tmp_path, ini)
    assert re.search(r"1 passed in", told), told
    plugin = (ROOT / "plugins" / "pytest_purgatorio.py").read_text()
    assert set(re.findall(r"^\| `(kafka_\w+)`", PAGE, re.MULTILINE)) == set(
        re.findall(r'addini\(\s*"(kafka_\w+)"', plugin)
    )


@pytest.mark.process
def test_the_programs_without_pytest_run(tmp_path: Path) -> None:
    for name in ("script.py", "test_unittest.py"):
        (tmp_path / name).write_text(PROGRAMS[name])
    assert re.fullmatch(r"127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+){2}\n", python(tmp_path, "script.py"))
    assert python(tmp_path, "test_unittest.py").endswith("OK\n")


def test_the_commands_of_the_page_add_list_and_clear_a_rule_and_move_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [line for block in blocks("console") for line in block.splitlines() if line.startswith("$ purgatorio")]
    assert len(commands) == 4
    with cluster(brokers=1) as kafka:
        monkeypatch.setenv("PURGATORIO_ADMIN", kafka.admin_url)
        counts = []
        for command in commands:
            assert main(shlex.split(command)[2:]) == 0
            counts.append(len(kafka.faults))
    assert counts == [1, 1, 0, 0]
    told = capsys.readouterr().out
    assert "NOT_LEADER_OR_FOLLOWER" in told
    assert "moved 30 s" in told


def test_every_method_is_in_the_table() -> None:
    """A new control needs a line, and each that is named is there."""
    public = {name for name, _ in inspect.getmembers(Kafka) if not name.startswith("_")}
    named = {name for name in public if re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", PAGE)}
    assert public - named == {"is_usable", "left_open"}
    table = PAGE.partition("| method | does |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"(?:`|, )(\w+)(?=\(|`)", row)}
    assert {name for name in told if not hasattr(Kafka, name)} <= {"transactional_id", "to"}


def test_every_word_of_a_fault_rule_is_in_the_tables() -> None:
    tables = PAGE.partition("| to match | |")[2].partition("Of the rules")[0]
    first_cells = [row.split("|")[1] for row in tables.splitlines() if row.startswith("| `")]
    told = {word for cell in first_cells for word in re.findall(r"`(\w+)`", cell)}
    assert told == {each.name for each in Rule.__dataclass_fields__.values()} - {"name"}


def test_every_word_of_a_rule_about_the_tier_is_on_the_page() -> None:
    section = PAGE.partition("## A bad tier")[2].partition("\n## ")[0]
    assert set(TierRule.__dataclass_fields__) - {"name"} <= set(re.findall(r"`(\w+)`", section))


def test_every_word_of_a_toxic_is_on_the_page() -> None:
    section = PAGE.partition("## Bad networks")[2].partition("\n## ")[0]
    told = set(re.findall(r"`(\w+)(?==3)?[^`]*`", section))
    assert set(TOXICS) <= told
    assert set(Toxic.__dataclass_fields__) - {"name", "toxic"} <= told
