"""The fragments in docs/changes/ are such as a release makes a section of."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRAGMENTS = [
    path
    for path in sorted((ROOT / "docs" / "changes").iterdir())
    if path.name not in ("README.md", "template.md.jinja")
]


@pytest.fixture
def kinds() -> list[str]:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    return [kind["directory"] for kind in settings["type"]]


def test_each_fragment_has_a_name_a_kind_and_a_sentence(kinds: list[str]) -> None:
    for path in FRAGMENTS:
        assert re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(kinds)})\.md", path.name), path.name
        text = path.read_text(encoding="utf-8")
        assert re.fullmatch(r"[^\s*-].*[.!?)]\n", text, re.DOTALL), f"{path.name}: a sentence without a bullet"
        assert max(map(len, text.splitlines())) <= 130, path.name


@pytest.mark.process
def test_a_release_makes_a_section_of_them(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "docs" / "changes",
        tmp_path / "docs" / "changes",
        ignore=lambda _, names: [n for n in names if n[-3:] == ".md"],
    )
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs" / "changes" / "leaders.changed.md").write_text("Answers name\nthe leader.\n")
    (tmp_path / "docs" / "changes" / "colder.fixed.md").write_text("The tea is colder.\n")
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", "9.9.9", "--date", "2030-01-02"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    head, _, rest = (ROOT / "CHANGELOG.md").read_text().partition("<!-- towncrier: begin -->\n")
    section = (
        "## 9.9.9 (2030-01-02)\n\n### Changed\n\n- Answers name\n  the leader.\n\n### Fixed\n\n- The tea is colder.\n"
    )
    assert (tmp_path / "CHANGELOG.md").read_text() == f"{head}<!-- towncrier: begin -->\n\n{section}{rest}"
    assert [path.name for path in (tmp_path / "docs" / "changes").iterdir()] == ["template.md.jinja"]
