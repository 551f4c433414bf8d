"""Write the tables of Kafka's releases, of their jars, which Maven brings.

`broker/metadata/kafka_releases.txt` has the APIs and features of each release, and the configs whose existence, default
or smallest number changed. `broker/config/kafka_settings.txt` has all settings of the newest release's brokers.

``python scripts/kafka_releases.py --write``; it needs Java 17 and Maven. Without ``--write`` it prints the tables.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.dynamic import dynamic_keys
from purgatorio.broker.config.kafka_settings import kafka_settings

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
TABLE: Final = ROOT / "broker" / "metadata" / "kafka_releases.txt"
SETTINGS: Final = ROOT / "broker" / "config" / "kafka_settings.txt"
PROGRAMS: Final = tuple(Path(__file__).with_name(f"{name}.java") for name in ("KafkaRelease", "KafkaSettings"))
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


def class_path(version: str, folder: Path) -> str:
    """Return the class path of a version's jars and of the programs in a folder; Maven brings the jars."""
    place = folder / version
    place.mkdir()
    wanted = "".join(_DEPENDENCY.format(*each.split(":"), version) for each in ARTIFACTS)
    (place / "pom.xml").write_text(_POM.format(wanted), encoding="utf-8")
    output = place / "path.txt"
    _run(["mvn", "-q", "-B", "-f", str(place / "pom.xml"), "dependency:build-classpath", f"-Dmdep.outputFile={output}"])
    return os.pathsep.join([output.read_text().strip(), str(folder)])


def told(program: str, path: str) -> list[str]:
    """Return the lines that a program prints of the jars in a class path."""
    return _run(["java", "-cp", path, program]).splitlines()


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


def settings_table(told: Iterable[str]) -> str:
    """Return the table of settings: name, type, default, values, how it may change; and whether Kafka hides it.

    Args:
        told: the lines of `KafkaSettings`.
    """
    rows = [NOTE]
    for line in told:
        name, kind, public, change, default, values = line.split("\t")
        rows.append(" ".join([name, kind, default, _values(values), change, *(["internal"] * (public == "internal"))]))
    return "".join(f"{row}\n" for row in rows)


def _values(validator: str) -> str:
    """Return the values that a setting may have as one word.

    ``1..9,-1`` is a number of 1 to 9, or -1; ``a|b`` one of these, and with ``~`` before in any case; ``+`` a text that
    is not empty; ``-`` anything.
    """
    if bounds := re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?", validator):
        low, high, also = bounds.groups(default="")
        return f"{low}..{high}{',' * bool(also)}{also}"
    if choices := re.fullmatch(r"(\(case insensitive\) )?\[(.*)\]", validator):
        return f"{'~' * bool(choices[1])}{'|'.join(sorted(choices[2].split(', ')))}"
    return "+" if validator.startswith("non-empty") else "-"


def broker_configs() -> Collection[str]:
    """Return the configs that brokers of Purgatorio have or show, by Kafka's dotted names."""
    own = {name.replace("_", ".") for name in BrokerConfig.model_fields}
    return own | dynamic_keys().keys() | kafka_settings().keys()


def main(argv: list[str]) -> int:
    """Make the tables; return the exit code."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _run(["javac", "-d", str(folder), *map(str, PROGRAMS)])
        paths = {name: class_path(version, folder) for name, version in RELEASES.items()}
        lines = {name: [line.split() for line in told("KafkaRelease", path)] for name, path in paths.items()}
        settings = settings_table(told("KafkaSettings", paths[next(reversed(RELEASES))]))
    text = table(lines, broker_configs())
    if "--write" in argv:
        TABLE.write_text(text, encoding="utf-8")
        SETTINGS.write_text(settings, encoding="utf-8")
    else:
        print(text + settings, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
