"""What the parts of the tests leave out, and that the lists of it are true."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests import parts

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "slow_tests.py"
LISTED = parts.Listed.read("# remark\n\ntests/a/\ntests/b.py\ntests/c.py::test_all\ntests/c.py::test_some[1]\n")


@pytest.mark.parametrize(
    ("nodeid", "is_listed"),
    [
        ("tests/a/test_x.py::test_y", True),
        ("tests/b.py::test_y[z]", True),
        ("tests/c.py::test_all[7::8]", True),
        ("tests/c.py::test_some[1]", True),
        ("tests/c.py::test_some[2]", False),
        ("tests/ab.py::test_y", False),
    ],
)
def test_a_list_has_files_tests_and_cases(nodeid: str, is_listed: bool) -> None:
    assert LISTED.has(nodeid) == is_listed


@pytest.mark.parametrize("path", [parts.SLOW_LIST, parts.CI_LIST], ids=lambda path: path.name)
def test_what_a_list_names_is_there(path: Path) -> None:
    """After a test got another name: `scripts/slow_tests.py` makes the list of slow ones anew."""
    listed = parts.Listed.read(path.read_text(encoding="utf-8"))
    assert [each for each in listed.paths if not (ROOT / each).exists()] == []
    assert [
        each for each in sorted(listed.tests) if each.partition("[")[0] not in nodes_of(each.partition("::")[0])
    ] == []


@cache
def nodes_of(path: str) -> frozenset[str]:
    """The node ids of a file's functions and of its classes' methods."""
    found: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body if (ROOT / path).exists() else ():
        found.add(f"{path}::{getattr(node, 'name', '')}")
        inner = node.body if isinstance(node, ast.ClassDef) else ()
        found.update(f"{path}::{getattr(node, 'name', '')}::{getattr(each, 'name', '')}" for each in inner)
        if isinstance(node, ast.Assign):  # TestRebalances = Rebalances.TestCase
            found.update(f"{path}::{each.id}::runTest" for each in node.targets if isinstance(each, ast.Name))
    return frozenset(found)


def test_a_quick_run_does_without_large_packages() -> None:
    source = "import pytest\nfrom pyarrow import Table\n\ndef f():\n    import confluent_kafka\n"
    assert not parts.can_be_read(source, frozenset({"pyarrow", "pyspark"}))
    assert parts.can_be_read(source, frozenset({"pyspark", "confluent_kafka"}))
    assert parts.can_be_read(source, frozenset())


def test_real_clients_are_left_to_ci_but_for_a_smoke_test_of_each() -> None:
    nodeid = "tests/compat/test_kcat.py::test_records_that_are_produced_are_consumed"
    assert parts.marks_of(nodeid, ["parametrize"]) == ["slow", "ci"]
    assert parts.marks_of(nodeid, ["parametrize", "smoke"]) == ["slow"]
    assert parts.marks_of("tests/pipeline/test_source.py::test_it", ["spark"]) == ["ci"]
    assert parts.marks_of("tests/broker/log/test_log.py::test_it", []) == []
    clients = ["kcat", "confluent_kafka", "aiokafka", "kafka_python", "java"]
    files = [*(f"tests/compat/test_{client}.py" for client in clients), "tests/pipeline/test_source.py"]
    assert [path for path in files if (ROOT / path).read_text().count("pytest.mark.smoke") != 1] == []


def test_a_part_reads_no_file_of_which_it_runs_nothing() -> None:
    assert parts.is_read("usual", "tests/compat/")
    assert not parts.is_read("quick", "tests/compat/")
    assert parts.is_read("quick", "tests/")


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slow_tests", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_most_slow_cases_make_a_slow_test(script: ModuleType) -> None:
    times = ["0.07 b::t[1]", "0.06 b::t[2 3]", "0.01 b::t[4]", "0.9 a::u[1]", "0.01 a::u[2]", "0.03 c::v", "0.02 c::w"]
    assert script.slow(times) == ["a::u[1]", "b::t", "c::v"]


def test_the_list_is_printed_or_written_below_what_was_written_by_hand(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "times").write_text("0.07 b::t\n0.01 a::u\n")
    listed = tmp_path / "slow.txt"
    listed.write_text(f"tests/x/\n{script.LAST_REMARK}old::t\n")
    monkeypatch.setattr(script, "SLOW_LIST", listed)
    assert script.main([str(tmp_path / "times"), "--write"]) == script.main([str(tmp_path / "times")]) == 0
    assert listed.read_text() == capsys.readouterr().out == f"tests/x/\n{script.LAST_REMARK}b::t\n"
    assert script.main([]) == 2
