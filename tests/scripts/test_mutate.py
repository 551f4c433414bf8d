"""The mutation run: each mutant fits the code, and the unit tests notice it."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.simulation.seeds import turn_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import mutate  # noqa: E402 - a script, not a module of the package


@pytest.mark.parametrize("mutant", mutate.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_changes_its_file_in_one_place_to_valid_python(mutant: mutate.Mutant) -> None:
    compile(mutate.broken(mutant), mutant.file, "exec")
    assert (ROOT / mutant.tests).exists()


def test_a_mutant_that_does_not_fit_the_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("a = 1\na = 1\n")
    with pytest.raises(ValueError, match="2 times"):
        mutate.broken(mutate.Mutant("m", "file.py", "a = 1\n", "", "tests"), tmp_path)


def test_an_unknown_mutant_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        mutate.main(["luck"])
    assert "there is no mutant 'luck'" in capsys.readouterr().err


def test_each_mutant_has_its_turn_in_ci() -> None:
    turns = range(len(mutate.MUTANTS))
    assert {mutant.name for turn in turns for mutant in mutate.of_turn(turn)} == {each.name for each in mutate.MUTANTS}
    assert len(mutate.of_turn(7)) == mutate.MUTANTS_A_TURN


@pytest.mark.ci
@pytest.mark.process
@pytest.mark.no_cover
@pytest.mark.timeout(1200)
@pytest.mark.skipif("CI" not in os.environ, reason="CI runs some by turns, ./scripts/test --all runs all")
def test_the_unit_tests_notice_the_mutants_of_the_turn() -> None:
    chosen = mutate.of_turn(turn_of(os.environ, datetime.now(UTC).date(), sys.version_info.minor))
    assert [mutant.name for mutant, survived in mutate.survivors(chosen) if survived] == []


@pytest.mark.heavy
@pytest.mark.process
@pytest.mark.timeout(3600)
def test_the_unit_tests_notice_every_mutant() -> None:
    assert [mutant.name for mutant, survived in mutate.survivors(mutate.MUTANTS) if survived] == []
