"""The site builds without a warning, as `scripts/docs` builds it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LIMIT_SECONDS = 180
"""Sphinx takes 20 s on a quiet machine, and several times as long beside other tests."""


@pytest.mark.process
@pytest.mark.timeout(LIMIT_SECONDS + 20)
@pytest.mark.skipif(
    importlib.util.find_spec("sphinx") is None and "CI" not in os.environ, reason="Sphinx is not installed"
)
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ["--quiet", "--fail-on-warning", "--keep-going", "-b", "html", "-d", str(tmp_path / "doctrees")]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "docs", str(site)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text()
        assert 'src="http' not in text, page
        assert 'rel="stylesheet" type="text/css" href="http' not in text, page
        # What stands before a colon in the first line of a property's docstring would become its type.
        assert 'Type<span class="colon">' not in text, page
