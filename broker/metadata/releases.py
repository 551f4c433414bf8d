"""Releases of Apache Kafka: their APIs with versions, features, and configs, so that a cluster answers as one of them.

The table beside this file is written by ``scripts/kafka_releases.py`` of Kafka's own jars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Final

from purgatorio.broker.routing.request import Versions
from purgatorio.late import dataclass
from purgatorio.protocol.api_key import BROKERS_ONLY

TABLE: Final = Path(__file__).with_name("kafka_releases.txt")
LATEST: Final = "latest"
"""All that is answered here, whatever release has it."""
CONFIGS: Final = ("topic", "broker", "group")
"""The resource types that have configs."""
NEEDS: Final[Mapping[str, frozenset[int]]] = {
    "group.version": frozenset({68, 69}),
    "share.version": frozenset({76, 77, 78, 79, 90, 91, 92}),
    "streams.version": frozenset({88, 89, 93}),
}
"""The APIs that are not answered while a feature has level 0, which a release may have them for already."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a feature that a release supports, and the one that a new cluster of it has."""

    lowest: int
    highest: int
    level: int


@dataclass(frozen=True, slots=True)
class Configs:
    """The configs of topics, of brokers, or of groups in which a release differs from others.

    Attributes:
        absent: those that it does not have, and another release has.
        defaults: as text, the defaults that are others in the newest release.
        lowest: the smallest number that a config may have.
    """

    absent: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    lowest: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Kafka.

    Attributes:
        versions: the lowest and the highest version of each API that its brokers answer, by key.
        features: those that it knows, by name.
        configs: its configs, by what has them: "topic", "broker" or "group".
    """

    name: str
    versions: Mapping[int, tuple[int, int]]
    features: Mapping[str, Levels]
    configs: Mapping[str, Configs] = field(default_factory=dict)

    def narrowed(self, key: int, answered: Versions) -> Versions | None:
        """Return those of the versions answered here of an API that this release has; None if it has none of them."""
        for feature, keys in NEEDS.items():
            if key in keys and (feature not in self.features or self.features[feature].level == 0):
                return None
        if key not in self.versions:
            return None
        lowest, highest = self.versions[key]
        lowest, highest = max(lowest, answered.lowest), min(highest, answered.highest)
        if lowest > highest:
            return None
        if key in BROKERS_ONLY:  # all versions are answered, and only those of the release are listed
            return answered._replace(highest_advertised=highest)
        return answered._replace(lowest=lowest, highest=highest)


def release(name: str) -> Release | None:
    """Return a release by its name; None for `LATEST`.

    Raises:
        KeyError: it is not in the table.
    """
    return None if name == LATEST else releases()[name]


def _configs(rows: Sequence[Sequence[str]], place: int) -> Mapping[str, Configs]:
    """Return the configs of the release in one column of the table."""
    found = {}
    for kind in CONFIGS:
        told = {what: (cells[place], cells[-1]) for each, what, *cells in rows if each == kind}
        lowest = {what: cells[place] for each, what, *cells in rows if each == f"{kind}-lowest"}
        found[kind] = Configs(
            frozenset(what for what, (cell, _) in told.items() if cell == "-"),
            {what: cell[1:] for what, (cell, newest) in told.items() if cell[0] == newest[0] == "=" and cell != newest},
            {what: int(cell) for what, cell in lowest.items() if cell != "-"},
        )
    return found


@cache
def releases() -> Mapping[str, Release]:
    """Return the releases of the table, oldest first."""
    rows = [line.split() for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    (names,) = [row[1:] for row in rows if row[0] == "release"]
    found = {name: Release(name, {}, {}, _configs(rows, place)) for place, name in enumerate(names)}
    for kind, what, *cells in rows:
        for name, cell in zip(names, cells, strict=False):
            if cell == "-" or kind not in ("api", "feature"):
                continue
            numbers = [int(number) for number in cell.replace("=", "-").split("-")]
            if kind == "api":
                versions = dict(found[name].versions)
                versions[int(what)] = (numbers[0], numbers[1])
                found[name] = replace(found[name], versions=versions)
            else:
                features = {**found[name].features, what: Levels(*numbers)}
                found[name] = replace(found[name], features=features)
    return found
