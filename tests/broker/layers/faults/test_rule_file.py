"""Fault rules in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.broker.layers.faults.rule import FaultError
from purgatorio.broker.layers.faults.rule_file import read_rules


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return tmp_path / "rules.toml"


def test_the_rules_come_in_the_order_of_the_file(rules: Path) -> None:
    rules.write_text('[[fault]]\napi = "Fetch"\nhold = true\n\n[[fault]]\nerrors = ["NONE", "REQUEST_TIMED_OUT"]\n')
    assert list(map(str, read_rules(rules))) == ["api=Fetch hold=true", "errors=NONE,REQUEST_TIMED_OUT"]
    rules.write_text('[[fault]]\ntoxic = "timeout"\nbroker = 2\n')
    assert list(map(str, read_rules(rules))) == ["toxic=timeout broker=2"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[fault]]\nhold = true\n[[fault]]\napi = "Fetsch"\nhold = true', "rule 2: there is no API 'Fetsch'; did you"),
        ("[fault]\nhold = true", "begin each rule with"),
        ("[[faults]]\nhold = true", "there is no 'faults' in a file of fault rules; did you mean fault?"),
        ("hold: true", "Expected"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(rules: Path, text: str, sentence: str) -> None:
    rules.write_text(text)
    with pytest.raises(FaultError) as caught:
        read_rules(rules)
    assert str(caught.value).startswith(f"{rules}: ")
    assert sentence in str(caught.value)


def test_the_command_does_not_start_with_a_file_that_is_not_there(
    rules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["cluster", "--faults", str(rules)]) == 2
    assert capsys.readouterr().err == f"purgatorio: {rules}: No such file or directory\n"
