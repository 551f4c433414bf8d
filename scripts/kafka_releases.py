"""Write the table of Kafka's releases, of their jars, which Maven brings: `broker/api/kafka_releases.txt`.

It has the APIs and features of each release, and the configs whose existence, default or smallest number changed.

``python scripts/kafka_releases.py --write``; it needs Java 17 and Maven. Without ``--write`` it prints the table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.dynamic import dynamic_keys

RELEASES: Final = {
    "3.9": "3.9.1",
    "4.0": "4.0.0",
    "4.1": "4.1.0",
    "4.2": "4.2.0",
    "4.3": "4.3.1",
    "4.4": "4.4.0",
}
"""The releases, with the version whose jars tell of them: what is answered does not change in a bug fix."""
ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = ROOT / "broker" / "api" / "kafka_releases.txt"
PROGRAM: Final = Path(__file__).with_name("KafkaRelease.java")
ARTIFACTS: Final = ("org.apache.kafka:kafka-server",)
CONFIGS: Final = ("topic", "broker", "group")
LOWEST: Final = "topic-lowest"
"""The kind of the rows that have the smallest number of a topic config."""
NOTE: Final = "# Written by scripts/kafka_releases.py of the jars of Apache Kafka; do not edit."
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>purgatorio</groupId>
  <artifactId>releases</artifactId>
  <version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>com.fasterxml.jackson.core</groupId><artifactId>*</artifactId></exclusion>"
    "</exclusions></dependency>"
)


def told(version: str, folder: Path) -> list[list[str]]:
    """Return the lines that `KafkaRelease` prints of a version, as words."""
    place = folder / version
    place.mkdir()
    wanted = "".join(_DEPENDENCY.format(*each.split(":"), version) for each in ARTIFACTS)
    (place / "pom.xml").write_text(_POM.format(wanted), encoding="utf-8")
    output = place / "path.txt"
    _run(["mvn", "-q", "-B", "-f", str(place / "pom.xml"), "dependency:build-classpath", f"-Dmdep.outputFile={output}"])
    path = os.pathsep.join([output.read_text().strip(), str(folder)])
    return [line.split() for line in _run(["java", "-cp", path, "KafkaRelease"]).splitlines()]


def _run(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def table(found: dict[str, list[list[str]]], ours: Collection[str]) -> str:
    """Return the table. Of configs it has those in which the releases differ.

    Args:
        found: what is told of each release, by its name.
        ours: the configs of brokers that brokers of Purgatorio have; others are left out.
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for name, lines in found.items():
        for kind, what, lowest, highest, *level in lines:
            if kind in CONFIGS:
                default, number = lowest, highest
                cells.setdefault((kind, what), {})[name] = default
                if kind == "topic":
                    cells.setdefault((LOWEST, what), {})[name] = number
            else:
                cells.setdefault((kind, what), {})[name] = f"{lowest}-{highest}" + "".join(f"={each}" for each in level)
    rows = [["release", *found], ["version", *(RELEASES[name] for name in found)]]
    for kind in ("api", "feature"):
        named = [what for each, what in cells if each == kind]
        ordered = sorted(named, key=int) if kind == "api" else sorted(named)
        rows += [[kind, what, *(cells[kind, what].get(name, "-") for name in found)] for what in ordered]
    for kind in (*CONFIGS, LOWEST):
        for what in sorted(what for each, what in cells if each == kind and (kind != "broker" or what in ours)):
            row = [cells[kind, what].get(name, "-") for name in found]
            if len({each for each in row if each != "-"} if kind == LOWEST else set(row)) > 1:
                rows.append([kind, what, *row])
    return "".join(f"{line}\n" for line in (NOTE, *map(" ".join, rows)))


def broker_configs() -> Collection[str]:
    """Return the configs that brokers of Purgatorio have, by Kafka's dotted names."""
    return {name.replace("_", ".") for name in BrokerConfig.model_fields} | dynamic_keys().keys()


def main(argv: list[str]) -> int:
    """Make the table; return the exit code."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _run(["javac", "-d", str(folder), str(PROGRAM)])
        text = table({name: told(version, folder) for name, version in RELEASES.items()}, broker_configs())
    if "--write" in argv:
        TABLE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
