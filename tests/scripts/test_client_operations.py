"""The operations in other languages are those of the table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from purgatorio.admin.operations.table import OPERATIONS

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "client_operations.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("client_operations", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_as_the_table_has_it(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """After a change: `.venv/bin/python scripts/client_operations.py --write`."""
    assert script.main([]) == 0, capsys.readouterr().out


def test_each_language_has_each_operation(script: ModuleType) -> None:
    texts = script.texts()
    for kind in OPERATIONS:
        name = kind.__name__
        lower = name[0].lower() + name[1:]
        assert f"  {lower}: {{ method: " in texts["javascript/operations.js"]
        assert f"  {lower}(" in texts["javascript/operations.d.ts"]
        assert f"\ntype {name} struct" in texts["go/operations.go"]
        assert f"class {name} extends Operation" in texts["java/src/main/java/purgatorio/Operations.java"]


def test_files_are_written_and_stale_ones_told(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "CLIENTS", tmp_path)
    monkeypatch.setattr(script, "FILES", {"go/operations.go": script.go})
    assert script.main([]) == 1
    assert "scripts/client_operations.py --write:\n  go/operations.go\n" in capsys.readouterr().out
    assert script.main(["--write"]) == 0
    assert script.main([]) == 0


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
def test_types_are_those_of_each_language(script: ModuleType, schema: Any, typescript: str, go: str, java: str) -> None:
    assert (script._typescript_type(schema), script._go_type(schema), script._java_type(schema)) == (
        typescript,
        go,
        java,
    )
