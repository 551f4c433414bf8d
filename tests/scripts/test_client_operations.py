"""The operations in other languages are those of the table."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from purgatorio.admin.operations.table import OPERATIONS
from purgatorio.testing import share_groups, values

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import client_operations  # noqa: E402 - a script, not a module of the package
import client_table  # noqa: E402
import kit_methods  # noqa: E402
import kit_names  # noqa: E402

JAVA = "java/src/main/java/purgatorio"
BY_HAND = {
    "javascript": ("javascript/index.d.ts javascript/controls.d.ts", r"^  (readonly )?{}(: |\()"),
    "go": (
        "go/kafka.go go/calls.go go/ask.go go/records.go go/franz/franz.go",
        r"^(func (\(k .Kafka\) )?{0}\(|\t{0} )",
    ),
    "java": (f"{JAVA}/Kafka.java {JAVA}/KafkaControls.java", r"^ +public [\w<>, ]+ {}\("),
}
"""The files that have names by hand, and how one is declared there."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return client_operations.texts()


def public_names(owner: type) -> set[str]:
    """Methods, properties, and the attributes that the docstring names."""
    attributes = (inspect.getdoc(owner) or "").partition("Attributes:")[2]
    return {*filter(str.islower, dir(owner)), *re.findall(r"^ +([a-z_]+): ", attributes, re.MULTILINE)} - {
        name for name in dir(owner) if name.startswith("_")
    }


def test_the_files_are_as_the_table_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    """After a change: `.venv/bin/python scripts/client_operations.py --write`."""
    assert client_operations.main([]) == 0, capsys.readouterr().out


def test_each_language_has_each_operation(texts: dict[str, str]) -> None:
    for kind in OPERATIONS:
        name = kind.__name__
        lower = name[0].lower() + name[1:]
        assert f"  {lower}: {{ method: " in texts["javascript/operations.js"]
        assert f"  {lower}(" in texts["javascript/operations.d.ts"]
        assert f"\ntype {name} struct" in texts["go/operations.go"]
        assert f"class {name} extends Operation" in texts["java/src/main/java/purgatorio/Operations.java"]


def test_files_are_written_and_stale_ones_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client_operations, "CLIENTS", tmp_path)
    monkeypatch.setattr(client_operations, "PAGE", "languages.md")
    monkeypatch.setattr(client_operations, "FILES", {"go/operations.go": client_operations.go})
    page = tmp_path / "languages.md"
    page.write_text(f"before\n{client_operations.BEGIN}{client_operations.END}\nafter\n")
    assert client_operations.main([]) == 1
    assert "scripts/client_operations.py --write:\n  go/operations.go\n  languages.md\n" in capsys.readouterr().out
    assert client_operations.main(["--write"]) == 0
    assert client_operations.main([]) == 0
    assert re.fullmatch(r"before\n<!.*\n| `hold_follower\(broker\)` .*\nafter\n", page.read_text(), re.DOTALL)


@pytest.mark.parametrize(
    ("schema", "typescript", "go", "java"),
    [
        ({"type": "integer", "minimum": 0}, "number", "int", "long"),
        ({"type": "boolean"}, "boolean", "bool", "boolean"),
        ({"type": "number"}, "number", "float64", "double"),
        ({"type": "string", "format": "base64"}, "string", "string", "String"),
        ({"enum": ["earliest", "latest"], "type": "string"}, '"earliest" | "latest"', "string", "String"),
        (
            {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "number[][]",
            "[][]int",
            "List<? extends List<Long>>",
        ),
        (
            {"type": "object", "additionalProperties": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
            "Record<string, number | null>",
            "map[string]any",
            "Map<String, ?>",
        ),
    ],
)
def test_types_are_those_of_each_language(schema: Any, typescript: str, go: str, java: str) -> None:
    assert (client_table.typescript_type(schema), client_table.go_type(schema), client_table.java_type(schema)) == (
        typescript,
        go,
        java,
    )


@pytest.mark.parametrize("owner", kit_methods.OWNERS)
def test_each_name_of_the_python_kit_is_in_the_other_kits_or_has_a_reason(owner: str) -> None:
    """A new method of the kit comes into one of the tables of scripts/kit_names.py."""
    made = [kit.name for kit in kit_names.KIT if kit.owner == owner]
    by_hand, without = kit_names.BY_HAND.get(owner, {}), kit_names.WITHOUT.get(owner, {})
    assert public_names(kit_methods.OWNERS[owner]) == {*made, *by_hand, *without}
    assert not (set(made) & by_hand.keys() | set(made) & without.keys() | by_hand.keys() & without.keys())


def test_each_language_has_the_names_of_the_kit(texts: dict[str, str]) -> None:
    """Those that the table makes."""
    for kit in kit_names.KIT:
        name, in_go = (make(kit.elsewhere or kit.name) for make in (client_table.camel, client_table.go_name))
        owner = kit_methods.JS_CLASSES[kit.owner].replace("Controls", "Kafka")
        assert f"\n  async {name}(" in texts["javascript/controls.js"]
        assert f"\n  {name}(" in texts["javascript/controls.d.ts"]
        assert re.search(rf"\nfunc \(\w \*{owner}\) {in_go}\(", texts["go/controls.go"])
        assert re.search(rf"\n +public (final )?[\w<>]+ {name}\(", texts[f"{JAVA}/KafkaControls.java"])


@pytest.mark.parametrize("language", BY_HAND)
def test_each_language_has_the_names_that_are_by_hand(language: str) -> None:
    files, declared = BY_HAND[language]
    text = "\n".join((ROOT / "clients" / name).read_text() for name in files.split())
    for names in kit_names.BY_HAND.values():
        for elsewhere in names.values():
            name = elsewhere.split()[list(BY_HAND).index(language)].rpartition(".")[2]
            assert re.search(declared.format(name), text, re.MULTILINE), name


@pytest.mark.parametrize("value", ["Parked", "Ended", "Group", "InFlight"])
def test_values_have_the_attributes_that_they_have_in_python(value: str) -> None:
    names = [
        field.name for field in dataclasses.fields(getattr(share_groups if value == "InFlight" else values, value))
    ]
    assert list(kit_names.VALUES[value]) == [name for name in names if (value, name) != ("Ended", "causes")]


def test_what_is_given_to_a_method_follows_from_the_operation(texts: dict[str, str]) -> None:
    for name, line in {
        "javascript/controls.d.ts": "  moveLeader(topic: string, options?: { partition?: number; to?: number }): P",
        "javascript/controls.js": "await this.operations.changeFollower({ held: true, id: broker });",
        "go/controls.go": "return k.done(ChangeFollower{Held: Ptr(true), ID: broker})",
        f"{JAVA}/KafkaControls.java": "run(new Operations.ChangeFollower(broker).held(true));",
    }.items():
        assert line in texts[name]
