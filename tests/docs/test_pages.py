"""The pages name files that exist, link to pages that exist, and agree with each other about versions."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import tomllib
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest
import yaml

from purgatorio import Cluster, ClusterConfig
from purgatorio.admin.cli.completion import table_of
from purgatorio.admin.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md", "purgatory/README.md")
    for page in ROOT.glob(pattern)
)
FOLDERS = (
    "purgatory|protocol|broker|admin|pipeline|plugins|simulation|testing|purgatorio|scripts|tests|docs|examples|deploy"
)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The table [project] of pyproject.toml."""
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return loaded


def text_of(page: Path) -> str:
    """A page without the changelog's sections of releases, which name the files of their time."""
    return re.split(r"^## \d+\.\d+\.\d+", page.read_text(), maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_in_a_page_exists(page: Path) -> None:
    """A path is in backticks and begins with one of the repository's folders; a pattern in it is not checked."""
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", text_of(page))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def programs(page: str) -> list[str]:
    """The Python programs of a page."""
    return re.findall(r"^```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


async def test_the_cluster_in_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The README's first program is a test, which the tests of the testing page run."""
    _, program = programs("README.md")
    running = eval(compile(program, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {})
    assert isawaitable(running)
    await running
    assert re.fullmatch(r"127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+){2}\n", capsys.readouterr().out)


async def test_the_transactions_in_the_page_of_apis_run(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = programs("docs/apis.md")
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as cluster:
        here = program.replace("localhost:9092", cluster.bootstrap)
        await asyncio.to_thread(exec, compile(here, "docs/apis.md", "exec"), {})
    assert capsys.readouterr().out == "b'a bill'\n"


def test_the_changelog_begins_with_the_last_release(project: dict[str, Any]) -> None:
    """With the version and its day at a release, and with the one before it until then."""
    first = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    version, _, is_ahead = project["version"].partition(".dev")
    named = re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)", first)
    assert named, first
    if is_ahead:
        assert _numbers(named[1]) < _numbers(version)
    else:
        assert named[1] == version


def test_the_packages_for_other_languages_have_the_same_version(project: dict[str, Any]) -> None:
    """In the words of Maven and npm for what is not released yet; Go's modules take theirs from a tag."""
    version, _, is_ahead = project["version"].partition(".dev")
    maven = f"<version>{version}{'-SNAPSHOT' if is_ahead else ''}</version>"
    npm = version + ("-dev.0" if is_ahead else "")
    assert f"<artifactId>purgatorio-testing</artifactId>\n  {maven}" in (ROOT / "clients/java/pom.xml").read_text()
    assert f"<artifactId>purgatorio-testing</artifactId>\n      {maven}" in (ROOT / "docs/languages.md").read_text()
    assert json.loads((ROOT / "clients/javascript/package.json").read_text())["version"] == npm


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_the_workflow_runs_each_python_that_is_promised(project: dict[str, Any]) -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    promised = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    assert project["requires-python"] == f">={promised[0]}"


def test_every_decision_is_listed_in_order() -> None:
    folder = ROOT / "docs" / "decisions"
    records = sorted(path.stem for path in folder.glob("[0-9]*.md"))
    assert [record[:4] for record in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    assert re.findall(r"^(\d{4}-[\w-]+)$", (folder / "index.md").read_text(), re.MULTILINE) == records


def commands_in(text: str) -> set[str]:
    """The commands in backticks: their words up to the first argument."""
    named = re.findall(r"`purgatorio ((?:[a-z][a-z-]*\b ?)+)", text)
    return {each.strip() for each in named}


def test_every_command_that_alerts_and_pages_name_exists() -> None:
    """An alert's command has to be complete; a page may name a group of commands."""
    below = {each.words: {name for name, _ in each.subcommands} for each in table_of(build_parser())}
    alerts = {path: path.read_text() for path in (ROOT / "deploy").rglob("*.yml")}
    wrong = []
    for path, text in {**alerts, **{page: text_of(page) for page in PAGES}}.items():
        for words in commands_in(text):
            at = ""
            for word in words.split():
                if not below[at]:
                    break
                at = f"{at} {word}".strip()
                if at not in below:
                    break
            if at not in below or (path in alerts and below[at]):
                wrong.append(f"{path.relative_to(ROOT)}: {words}")
    assert any(commands_in(text) for text in alerts.values())
    assert wrong == []
