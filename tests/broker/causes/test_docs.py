"""The documentation lists each kind of cause, by its fields and its first words."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path

from purgatorio.broker.causes import cause

PAGE = Path(__file__).parents[3] / "docs" / "causes.md"


def row(kind: type) -> str:
    named = ", ".join(f"`{each.name}`" for each in fields(kind))
    says = (kind.__doc__ or "").partition("\n")[0].rstrip(".")
    return f"| `{kind.__name__}` | {named} | {says} |"


def test_the_documentation_lists_all_causes() -> None:
    kinds = [each for each in vars(cause).values() if is_dataclass(each) and isinstance(each, type)]
    names = {each.__name__ for each in kinds}
    listed = [line for line in PAGE.read_text().splitlines() if line.startswith("| `") and line.split("`")[1] in names]
    assert listed == [row(kind) for kind in kinds]
