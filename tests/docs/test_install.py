"""The pages say how to install what there is: a clone or a wheel, as one page has it."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "examples", "clients", "admin", "broker", "testing", "pipeline", "purgatory", "scripts")
KINDS = {".md", ".py", ".go", ".java", ".js", ".mjs", ".ts"}
MADE_OF_IT = {"docs/install.md", "docs/rooms.md"}
"""That page, and the one that is made of docstrings."""
WITHOUT = {"docs/changelog.md", "docs/releasing.md"}
FROM_A_REGISTRY = re.compile(r"""pip install [^\n]*?(?<![\w./-])["']?purgatorio(?![\w./-])""")
LOSES_THE_EDITABLE = re.compile(r"""pip install (?!-e )["']?\.(\[|["'`\s]|$)""")
INSTALLS_THIS = re.compile(r"pip install [^\n]*(-e '?\.|purgatorio)|the extra `")
FOR_CONTRIBUTORS = {"compile", "dev", "docs", "fuzz", "quick"}
"""Extras that ./scripts/test and its neighbours install."""


@cache
def texts() -> dict[str, str]:
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in FOLDERS:
        files += [
            file for file in (ROOT / folder).rglob("*") if file.suffix in KINDS and "node_modules" not in file.parts
        ]
    found = {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in files}
    return {name: text for name, text in found.items() if name not in WITHOUT and not name.startswith("docs/changes/")}


def mistakes(text: str) -> list[str]:
    found = [*FROM_A_REGISTRY.finditer(text), *LOSES_THE_EDITABLE.finditer(text)]
    return [text[match.start() :].partition("\n")[0] for match in found]


def test_nothing_is_installed_from_a_registry_or_over_an_editable_installation() -> None:
    assert {name: found for name, text in texts().items() if (found := mistakes(text))} == {}


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("pip install purgatorio pytest", True),
        ('pip install "purgatorio[top]"', True),
        ("pip install pytest purgatorio", True),
        ("pip install '.[top]'", True),
        ("`pip install . pytest`", True),
        ("pip install .", True),
        (".venv/bin/pip install -e '.[top]'", False),
        ("pip install ./purgatorio pytest", False),
        ("pip install 'dist/purgatorio-1.whl[top]'", False),
        ("pip install -r requirements.txt", False),
    ],
)
def test_the_check_knows_right_from_wrong(line: str, is_wrong: bool) -> None:
    assert bool(mistakes(line)) == is_wrong


def test_each_page_that_installs_this_leads_to_the_page_that_says_how() -> None:
    pages = {name: text for name, text in texts().items() if name.endswith(".md") and name not in MADE_OF_IT}
    installs = {name for name, text in pages.items() if INSTALLS_THIS.search(text)}
    assert len(installs) > 5
    assert sorted(name for name in installs if "install.md" not in pages[name]) == []


def test_the_page_has_each_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    listed = re.findall(r"^\| `(\w+)` \|", texts()["docs/install.md"], re.MULTILINE)
    assert listed == sorted(extras.keys() - FOR_CONTRIBUTORS)
