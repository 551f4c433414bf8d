"""What installing a schema registry says when it cannot be done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from purgatorio.registry import RegistryUnavailable, installing
from purgatorio.registry.kinds import HOME_VARIABLE


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return tmp_path / "home"


def test_apicurio_needs_maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RegistryUnavailable, match="there is no mvn on the PATH"):
        installing.install("apicurio")


def test_karapace_needs_a_python_that_it_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installing, "KARAPACE_PYTHONS", ((3, 99),))
    with pytest.raises(RegistryUnavailable, match="Karapace needs Python 3"):
        installing.install("karapace")


def test_an_unknown_registry_is_refused() -> None:
    with pytest.raises(RegistryUnavailable, match="no schema registry 'buf'"):
        installing.install("buf")


def test_karapace_is_a_commit_with_the_dependencies_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag can be moved; another version has what its owner says."""
    ran: list[list[str]] = []
    monkeypatch.setattr(installing, "_run", lambda command, folder=None: ran.append(list(command)))
    monkeypatch.setattr(installing, "_python", lambda: "python3.12")
    installing.install("karapace")
    installing.install("karapace", "./karapace.whl")
    wanted = [command[command.index("--disable-pip-version-check") + 1 :] for command in ran if "pip" in command]
    (source, option, pins), others = wanted
    assert re.fullmatch(r"karapace @ git\+https://github\.com/Aiven-Open/karapace@[0-9a-f]{40}", source)
    commit = source.rpartition("@")[2]
    assert option == "--requirement"
    assert pins == f"https://raw.githubusercontent.com/Aiven-Open/karapace/{commit}/requirements/requirements.txt"
    assert others == ["./karapace.whl"]


@pytest.mark.process
def test_a_tool_that_fails_is_quoted_and_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho no such artifact\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (home / "apicurio").mkdir(parents=True)
    with pytest.raises(RegistryUnavailable, match="mvn failed, and said last: no such artifact"):
        installing.install("apicurio", "a:b:1")
    assert not (home / "apicurio").exists()
