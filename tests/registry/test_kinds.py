"""Which schema registry is chosen, and what it is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.registry import RegistryTarget, RegistryUnavailable
from purgatorio.registry.kinds import HOME_VARIABLE, Apicurio, chosen, home
from tests import stand_in_registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    return tmp_path


def test_where_none_is_installed_the_command_is_named(folder: Path) -> None:
    with pytest.raises(RegistryUnavailable, match=f"installed in {folder}: purgatorio registry install$"):
        chosen(None)
    with pytest.raises(RegistryUnavailable, match=r"purgatorio registry install --kind apicurio$"):
        chosen("apicurio")


def test_an_unknown_one_is_refused(folder: Path) -> None:
    with pytest.raises(RegistryUnavailable, match="no schema registry 'confluent', only karapace and apicurio"):
        chosen("confluent")


def test_the_one_that_is_there_is_chosen(folder: Path) -> None:
    (folder / "apicurio").mkdir()
    (folder / "apicurio" / "quarkus-run.jar").touch()
    assert chosen(None).name == "apicurio"
    stand_in_registry.install(folder)
    assert (chosen(None).name, chosen("apicurio").name) == ("karapace", "apicurio")


def test_the_usual_home_is_below_the_users_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert home() == tmp_path / "purgatorio" / "registry"


def test_apicurio_is_told_the_cluster_and_takes_no_login(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/java")
    launch = Apicurio().launch(RegistryTarget("b:1", 3, "0.0.0.0", 8081, {}))
    assert (launch.command[0], launch.environ["APICURIO_KAFKASQL_BOOTSTRAP_SERVERS"]) == ("/java/bin/java", "b:1")
    with pytest.raises(RegistryUnavailable, match=r"cannot log in by sasl\.mechanism"):
        Apicurio().launch(RegistryTarget("b:1", 3, "127.0.0.1", 8081, {"sasl.mechanism": "PLAIN"}))
