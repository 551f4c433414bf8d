"""The page of what is left out agrees with the registrations, with kio's list of APIs, and the table of releases."""

from __future__ import annotations

import re
from pathlib import Path

import kio.schema

from purgatorio.broker.api.routes import APIS
from purgatorio.broker.metadata.releases import releases
from purgatorio.protocol.api_key import ApiKey

PAGE = Path(__file__).resolve().parents[2] / "docs" / "skipped-features.md"
SCHEMA = Path(next(iter(kio.schema.__path__)))
NEWEST_KEY = 94
"""The last API key of Kafka 4.4."""


def tables() -> dict[str, list[tuple[str, ...]]]:
    """The rows of the table below each heading."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        rows = [
            tuple(cell.strip() for cell in row.split("|")) for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
        ]
        found[section.partition("\n")[0]] = rows[1:]
    return found


def name_of(key: ApiKey) -> str:
    """The name and the number, as the page writes them."""
    return f"{key.name.title().replace('_', '')} ({key.value})"


def newest_version(key: ApiKey) -> int:
    """The newest version in Kafka's schema: kio's of 4.3 knows unstable ones, too, and the releases know 4.4."""
    folders = (SCHEMA / key.name.lower()).iterdir()
    of_kio = [int(folder.name[1:]) for folder in folders if re.fullmatch(r"v\d+", folder.name)]
    return max(*of_kio, releases()["4.4"].versions.get(key, (0, 0))[1])


def test_the_list_of_keys_is_whole() -> None:
    assert [key.value for key in ApiKey] == list(range(NEWEST_KEY + 1))


def test_the_page_has_each_api_that_is_not_registered_and_no_other() -> None:
    registered = {api.key for api in APIS}
    listed = [name for name, _ in tables()["APIs that are not answered"]]
    assert listed == [name_of(key) for key in ApiKey if key not in registered]


def test_the_page_has_each_newer_version_that_is_not_answered_and_no_other() -> None:
    expected: list[tuple[str, str]] = []
    for api in APIS:
        first, newest = api.max_version + 1, newest_version(api.key)
        if first <= newest:
            expected.append((name_of(api.key), str(first) if first == newest else f"{first}–{newest}"))
    assert [row[:2] for row in tables()["Versions that are not answered"]] == expected


def test_each_row_says_why() -> None:
    """In a sentence, or by the name of an API above that has the same reason."""
    named: list[str] = []
    for rows in tables().values():
        for name, *_, why in rows:
            assert why.endswith("."), name
            if again := re.match(r"As (\w+)[.:]", why):
                assert again[1] in named, name
            named.append(name.partition(" (")[0])
