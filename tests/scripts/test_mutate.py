"""The mutation run: each mutant fits the code, and the unit tests notice it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

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


@pytest.mark.heavy
@pytest.mark.process
@pytest.mark.timeout(3600)
def test_the_unit_tests_notice_every_mutant() -> None:
    assert [mutant.name for mutant, survived in mutate.survivors(mutate.MUTANTS) if survived] == []
