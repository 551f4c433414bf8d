"""The card agrees with the data of the last comparison, the registrations, and the list of known differences."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from purgatorio.broker.api.routes import APIS
from purgatorio.broker.metadata.releases import releases
from purgatorio.protocol.api_key import ApiKey
from tests.compat.same_answers.drawn import CLIENTS
from tests.compat.same_answers.draws import SEED, compared_apis, compared_versions, draws, paths_of
from tests.compat.same_answers.known import KNOWN
from tests.compat.same_answers.known_drawn import KNOWN_DRAWN

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compatibility_card.py"


@pytest.fixture(scope="module")
def card() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compatibility_card", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_data_say(card: ModuleType) -> None:
    """After a change: `.venv/bin/python scripts/compatibility_card.py --write`."""
    assert card.PAGE.read_text(encoding="utf-8") == card.page(card.read_data())


def test_each_version_that_is_answered_was_compared(card: ModuleType) -> None:
    """After a new API or version: histories that ask for it, and `scripts/compatibility_card.py --run`."""
    data = card.read_data()["apis"]
    compared = {
        (name, int(version)) for name, versions in data.items() for version, row in versions.items() if row["requests"]
    }
    assert compared == {(card.name_of(api.key), version) for api in APIS for version in api.answered_versions}


def test_each_field_of_each_version_was_asked_by_each_kind_of_client(card: ModuleType) -> None:
    """After a new API, version, field, edge or kind of client: `scripts/compatibility_card.py --draw`."""
    drawn = card.read_data()["drawn"]
    assert drawn["seed"] == SEED
    assert drawn["clients"] == [client.name for client in CLIENTS]
    asked = {
        name: (api["fields"], {v: row["requests"] for v, row in api["versions"].items()})
        for name, api in drawn["apis"].items()
    }
    expected = {}
    for key in compared_apis():
        fields: dict[str, list[int]] = {}
        requests = {}
        for version in compared_versions(key):
            for path in paths_of(key, version):
                fields.setdefault(path, []).append(version)
            requests[str(version)] = len(draws(key, version)) * len(CLIENTS)
        expected[card.name_of(key)] = {path: f"{found[0]}–{found[-1]}" for path, found in fields.items()}, requests
    assert asked == expected


def test_a_version_that_no_draw_asks_is_not_called_the_same(card: ModuleType) -> None:
    rows = {"0": {"requests": 2, "known": []}}
    data = {"apis": {"Heartbeat": rows}, "drawn": {"apis": {}}}
    (told,) = [each for each in card.versions_of(ApiKey.HEARTBEAT, data, "") if each.version == 0]
    assert told.verdict == "not compared"


def test_each_version_that_kafka_answers_is_on_the_page_with_a_verdict(card: ModuleType) -> None:
    told: dict[tuple[str, int], str] = {}
    for name, first, last, verdict in re.findall(
        r"^\| (\w+) \(\d+\) \| (\d+)(?:–(\d+))? \| [^|]+ \| ([^|]+) \|$", card.page(card.read_data()), re.MULTILINE
    ):
        told |= {(name, version): verdict for version in range(int(first), int(last or first) + 1)}
    answered = {api.key: api.answered_versions for api in APIS}
    for key, (lowest, highest) in releases()[card.RELEASE].versions.items():
        for version in range(lowest, highest + 1):
            verdict = told[card.name_of(ApiKey(key)), version]
            assert verdict.startswith("not answered: ") == (version not in answered.get(ApiKey(key), ()))
            assert verdict.endswith(".") or verdict == "same" or "](#difference-" in verdict


def test_each_difference_that_was_seen_is_known(card: ModuleType) -> None:
    rows = [
        row
        for data in (card.read_data(), card.read_data()["tier"])
        for api in data["apis"].values()
        for row in api.values()
    ]
    assert {pattern for row in rows for pattern in row["known"]} <= KNOWN.keys()
    drawn = [row for api in card.read_data()["drawn"]["apis"].values() for row in api["versions"].values()]
    assert {pattern for row in drawn for pattern in row["known"]} <= KNOWN_DRAWN.keys()


def test_a_difference_has_its_number_and_the_same_versions_share_a_line(card: ModuleType) -> None:
    pattern = next(iter(KNOWN))
    rows = {str(version): {"requests": 2, "known": []} for version in range(5)}
    rows["4"]["known"] = [pattern]
    drawn = {"apis": {"Heartbeat": {"versions": {str(version): {"requests": 3, "known": []} for version in range(5)}}}}
    table = card.api_table({"apis": {"Heartbeat": rows}, "drawn": drawn}).splitlines()
    assert [line for line in table if line.startswith("| Heartbeat")] == [
        "| Heartbeat (12) | 0–3 | 20 | same |",
        "| Heartbeat (12) | 4 | 5 | [1](#difference-1) |",
    ]
    assert "| SyncGroup (14) | 0–5 | – | not compared |" in table


def test_anything_else_is_answered_with_how_it_is_used(card: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert card.main(["--help"]) == 2
    assert "--run" in capsys.readouterr().err


def test_versions_in_a_row_are_a_span(card: ModuleType) -> None:
    assert card.spans([1, 2, 3, 5, 7, 8]) == "1–3, 5, 7–8"
