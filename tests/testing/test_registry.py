"""`Kafka.schema_registry`: a registry beside a test's cluster. A small program stands in for Karapace."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from purgatorio.registry.kinds import HOME_VARIABLE
from purgatorio.testing import cluster
from tests import stand_in_registry

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    return tmp_path


def subjects(url: str) -> list[str]:
    with urlopen(f"{url}/subjects") as answer:
        found: list[str] = json.load(answer)
    return found


def test_it_begins_anew_when_the_cluster_does(home: Path) -> None:
    stand_in_registry.install(home)
    with cluster(brokers=1) as kafka:
        url = kafka.schema_registry.url
        assert kafka.schema_registry.client_config() == {"url": url}
        for begin_anew in (kafka.reset, lambda: kafka.restore(kafka.snapshot())):
            with urlopen(Request(f"{url}/subjects/orders-value/versions", b"{}")):
                pass
            assert subjects(url) == ["orders-value"]
            begin_anew()
            assert subjects(url) == []
    with pytest.raises(OSError, match="refused"):
        subjects(url)


def test_it_logs_in_as_the_first_user(home: Path) -> None:
    stand_in_registry.install(home)
    with cluster(brokers=1, sasl="SCRAM-SHA-256") as kafka, urlopen(f"{kafka.schema_registry.url}/settings") as answer:
        told = json.load(answer)
    assert (told["KARAPACE_SASL_MECHANISM"], told["KARAPACE_SASL_PLAIN_USERNAME"]) == ("SCRAM-SHA-256", "alice")
    assert told["KARAPACE_BOOTSTRAP_URI"] == kafka.bootstrap


def test_a_registry_that_cannot_log_in_says_so(home: Path) -> None:
    stand_in_registry.install(home)
    with (
        cluster(brokers=1, sasl="OAUTHBEARER") as kafka,
        pytest.raises(RuntimeError, match="cannot log in with"),
    ):
        _ = kafka.schema_registry


def test_where_none_is_installed_a_sentence_says_what_to_do(home: Path) -> None:
    with cluster(brokers=1) as kafka:
        with pytest.raises(RuntimeError, match=r"no schema registry is installed in .*: purgatorio registry install"):
            _ = kafka.schema_registry
        kafka.reset()
