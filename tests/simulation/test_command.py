"""`purgatorio simulate`, as it is typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from purgatorio.simulation.checks.checkers import CHECKS
from purgatorio.simulation.checks.group_checkers import GROUP_CHECKS
from purgatorio.simulation.history.history import Fault, History
from tests.compiled import COMPILED

pytestmark = [pytest.mark.simulation, pytest.mark.process]


def simulate(*argv: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    command = [sys.executable, "-m", "purgatorio", "simulate", "--seconds", "3", *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_it_tells_what_happened_and_what_was_checked_and_writes_it_down(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    code, said, errors = simulate("--seed", "42", "--history", str(file))
    assert (code, errors) == (0, "")
    assert said.startswith("Seed 42: 4 brokers, ")
    for name, meaning in {**CHECKS, **GROUP_CHECKS}.items():
        assert f"{name:<22} none" in said
        assert meaning in said
    history = History.read(file)
    assert history.digest() in said
    for fault in history.of(Fault):
        assert fault.what in said


def test_a_reader_that_has_had_enough_ends_it_without_a_traceback() -> None:
    command = f"{sys.executable} -m purgatorio simulate --seconds 3 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Seed 1: ")
    assert done.stderr == ""


def test_only_the_faults_that_are_asked_for_happen() -> None:
    _, said, _ = simulate("--faults", "pause,store")
    assert "pause broker" in said or "loses the metadata store" in said
    assert "kill" not in said


def test_a_rule_that_is_switched_off_is_explained_and_its_anomaly_found() -> None:
    code, said, errors = simulate("--seed", "1", "--seconds", "20", "--without", "patient-restart")
    assert code == 1
    assert said.startswith("Without rule 9. A rolling restart waits for full ISRs after each broker. Without: ")
    assert "not-converged" in errors


def test_many_seeds_tell_only_what_fails_and_how_to_see_it() -> None:
    assert simulate("--seeds", "3") == (0, "3 of 3 seeds passed all checks.\n", "")
    code, said, _ = simulate("--seeds", "2", "--seconds", "20", "--without", "patient-restart")
    assert code == 1
    assert "purgatorio simulate --seed 1 --without patient-restart" in said


@pytest.mark.skipif(not COMPILED, reason="needs compiled modules: ./scripts/compile")
def test_a_rule_in_compiled_code_is_not_said_to_be_switched_off() -> None:
    code, _, errors = simulate("--without", "min-isr")
    assert code == 2
    assert "advance_high_watermark is compiled, and so cannot be replaced" in errors


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (("--faults", "kil"), "there is no fault 'kil', only kill, stop, "),
        (("--without", "luck"), "there is no rule 'luck', only identity, "),
        (("--seeds", "2", "--history", "x"), "--history is for one seed"),
        (("--seed", "x"), "invalid int value"),
    ],
)
def test_a_wrong_call_is_told_so(argv: tuple[str, ...], complaint: str) -> None:
    code, said, errors = simulate(*argv)
    assert (code, said) == (2, "")
    assert complaint in errors
