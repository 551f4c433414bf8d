"""The card, docs/compatibility.md: which answers are those of Apache Kafka, API by API and version by version.

    .venv/bin/python scripts/compatibility_card.py --run      compare (Java 17 and Maven), write the data and the page
    .venv/bin/python scripts/compatibility_card.py --draw     only what is drawn, of all APIs or of those named
    .venv/bin/python scripts/compatibility_card.py --tier     only topics with a tier
    .venv/bin/python scripts/compatibility_card.py --write    write the page from the data of the last run
    .venv/bin/python scripts/compatibility_card.py            print it

Tests compare the page with the data, and the data with the registrations of the brokers and the known differences.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from purgatorio.broker.api.routes import APIS
from purgatorio.broker.metadata.releases import releases
from purgatorio.protocol.api_key import ApiKey

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.compat.same_answers.draws import LEFT_OUT  # isort: skip  # the line above lets it be found
from tests.compat.same_answers.known import KNOWN  # isort: skip
from tests.compat.same_answers.known_drawn import KNOWN_DRAWN  # isort: skip

ROOT: Final = Path(__file__).resolve().parent.parent

PAGE: Final = ROOT / "docs" / "compatibility.md"
DATA: Final = ROOT / "tests" / "compat" / "same_answers" / "answers.json"
DRAWN: Final = DATA.with_name("drawn.json")
TIER: Final = DATA.with_name("tier.json")
SKIPPED: Final = ROOT / "docs" / "skipped-features.md"
SUITES: Final = ROOT / "docs" / "outside-suites.md"
FRAMEWORKS: Final = ROOT / "tests" / "compat" / "frameworks" / "frameworks.toml"
RELEASE: Final = "4.4"
INTRODUCTION: Final = """\
# Compatibility

<!-- Written by scripts/compatibility_card.py; do not edit. -->

What answers as Apache Kafka {kafka} does. {requests:,} requests, right and wrong ones, were sent to a broker of each,
and the answers compared field by field; texts of errors, addresses and times aside. A difference is either listed here
with its reason, or a test fails (`tests/compat/same_answers`).

* {told:,} requests, on {date}, belong to histories written by hand: what members, producers and administrators do one
  after the other. CI tells a part of them each time, by turns, and `./scripts/test --all` all.
* {drawn:,} requests, on {drawn_date}, are drawn from the declarations of the messages: in each version a right one, and
  for each of its fields others in which that field is null, empty, unknown, negative, the largest, twice, or between
  strange ones. They come from {clients} kinds of clients: {kinds}.
  The order of lists counts here, and whether there is a text. `./scripts/test --all` sends them all; a test fails in
  each run for an API, a version or a field that was not asked.

Several brokers, and listeners with TLS, are not compared, and these draws are not asked:

{left_out}

## APIs

"Same" are the versions in which no answer differed. A number leads to a known difference; the other answers in these
versions are the same.

"""

WITH_A_TIER: Final = """
## Topics with a tier

{requests:,} requests, on {date}, are about topics with `remote.storage.enable=true`: what is read and looked up before,
in and behind the part that only [the tier](tier.md) has, what is deleted there, and which configs are refused. Apache
Kafka has no store of its own; here it has a plug-in of some lines, which keeps segments in a folder
(`scripts/bench/java/FolderRsm.java`).

"""


class Version(NamedTuple):
    """What the card says of a version of an API.

    Attributes:
        requests: how many answers were compared.
        verdict: "same", the numbers of known differences, or that and why it is not answered.
    """

    version: int
    requests: int
    verdict: str


def name_of(key: ApiKey) -> str:
    """Return an API's name, as Kafka writes it."""
    return key.name.title().replace("_", "")


def reasons() -> list[str]:
    """Return the reasons of known differences, in the order of the list; their numbers begin with 1."""
    return list(dict.fromkeys((*KNOWN.values(), *KNOWN_DRAWN.values())))


def left_out() -> str:
    """Return the draws that are not asked, with the reasons."""
    by_reason: dict[str, list[str]] = {}
    for (key, label), (_, why) in LEFT_OUT.items():
        by_reason.setdefault(why, []).append(f"{name_of(key)} `{label}`")
    return "\n".join(f"* {why.removesuffix('.')}: {', '.join(draws)}." for why, draws in by_reason.items())


def skipped(section: str) -> dict[str, str]:
    """Return the reasons in a table of docs/skipped-features.md, by the API's name."""
    text = SKIPPED.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (.*) \|$", text, re.MULTILINE)]
    found = {row[0].partition(" (")[0]: row[-1] for row in rows[1:]}
    for name, why in found.items():
        if again := re.match(r"As (\w+)\.$", why):
            found[name] = found[again[1]]
        elif more := re.match(r"As \w+: (.+)$", why):
            found[name] = more[1][0].upper() + more[1][1:]
    return found


def versions_of(key: ApiKey, data: dict[str, Any], why_not: str) -> Iterator[Version]:
    """Return what the card says of each version of an API that Kafka or Purgatorio answers."""
    answered = next((set(api.answered_versions) for api in APIS if api.key == key), set())
    lowest, highest = releases()[RELEASE].versions.get(key, (0, -1))
    numbers = {reason: number for number, reason in enumerate(reasons(), 1)}
    compared = data["apis"].get(name_of(key), {})
    drawn = data["drawn"]["apis"].get(name_of(key), {"versions": {}})["versions"]
    for version in sorted(answered | set(range(lowest, highest + 1))):
        of_version = compared.get(str(version), {"requests": 0, "known": []})
        by_draw = drawn.get(str(version), {"requests": 0, "known": []})
        if version not in answered:
            verdict = f"not answered: {why_not}"
        elif not of_version["requests"] or not by_draw["requests"]:
            verdict = "not compared"
        else:
            known = {numbers[KNOWN[pattern]] for pattern in of_version["known"]}
            known |= {numbers[KNOWN_DRAWN[pattern]] for pattern in by_draw["known"]}
            verdict = ", ".join(f"[{number}](#difference-{number})" for number in sorted(known)) or "same"
        yield Version(version, of_version["requests"] + by_draw["requests"], verdict)


def api_table(data: dict[str, Any]) -> str:
    """Return the table of APIs: a line for each range of versions with the same verdict."""
    apis_left_out, versions_left_out = skipped("APIs that are not answered"), skipped("Versions that are not answered")
    lines = ["| API | versions | requests | answers |", "|---|---|---|---|"]
    for key in ApiKey:
        name = name_of(key)
        why_not = apis_left_out.get(name) or versions_left_out.get(name, "")
        for verdict, group in groupby(versions_of(key, data, why_not), key=lambda each: each.verdict):
            same = list(group)
            span = str(same[0].version) if len(same) == 1 else f"{same[0].version}–{same[-1].version}"
            requests = sum(each.requests for each in same)
            lines.append(f"| {name} ({key.value}) | {span} | {requests or '–'} | {verdict} |")
    return "\n".join(lines) + "\n"


def spans(numbers: Sequence[int]) -> str:
    """Return ascending numbers, those in a row as a span: "1–3, 5"."""
    rows = [[number for _, number in row] for _, row in groupby(enumerate(numbers), key=lambda each: each[1] - each[0])]
    return ", ".join(str(row[0]) if len(row) == 1 else f"{row[0]}–{row[-1]}" for row in rows)


def tier_table(data: dict[str, Any]) -> str:
    """Return the table of what was asked about topics with a tier: a line for each API."""
    numbers = {reason: number for number, reason in enumerate(reasons(), 1)}
    lines = ["| API | versions | requests | answers |", "|---|---|---|---|"]
    for key in ApiKey:
        versions = data["apis"].get(name_of(key), {})
        if not versions:
            continue
        known = sorted({numbers[KNOWN[pattern]] for each in versions.values() for pattern in each["known"]})
        verdict = ", ".join(f"[{number}](#difference-{number})" for number in known) or "same"
        requests = sum(each["requests"] for each in versions.values())
        lines.append(f"| {name_of(key)} ({key.value}) | {spans(sorted(map(int, versions)))} | {requests} | {verdict} |")
    return "\n".join(lines) + "\n"


def differences() -> str:
    """Return the known differences, each under a heading that the table links to."""
    return "\n".join(f"### Difference {number}\n\n{reason}\n" for number, reason in enumerate(reasons(), 1))


def suites() -> str:
    """Return the figures of the outside suites, as docs/outside-suites.md has them."""
    rows = re.findall(
        r"^\| ([^|]*) \| [^|]* \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", SUITES.read_text("utf-8"), re.MULTILINE
    )
    lines = ["| suite | passed | failed | skipped |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows if row[0] != "suite"]
    return "\n".join(lines) + "\n"


def frameworks() -> str:
    """Return the table of frameworks, as tests/compat/frameworks has them."""
    data = tomllib.loads(FRAMEWORKS.read_text(encoding="utf-8"))
    lines = ["| framework | version | outcome | date |", "|---|---|---|---|"]
    for each in data["framework"]:
        outcome = each["outcome"].replace("-", " ")
        lines.append(f"| {each['name']} | {each['version'] or '–'} | {outcome} | {each['date']} |")
    return "\n".join(lines) + "\n"


def clients() -> str:
    """Return the clients that the tests of this repository run, with the versions that they install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    asked = [each for extra in project.values() for each in extra]
    found: dict[str, str] = {}
    for name in ("confluent-kafka", "aiokafka", "kafka-python"):
        found[name] = next(each.partition(name)[2] for each in asked if re.match(rf"{name}[><=]", each))
    compat = ROOT / "tests" / "compat"
    members = json.loads((compat / "groups" / "members" / "package.json").read_text(encoding="utf-8"))
    found["kafkajs"] = members["dependencies"]["kafkajs"]
    javascript = json.loads((ROOT / "clients" / "javascript" / "test" / "package.json").read_text(encoding="utf-8"))
    found["@kafkats/client: share groups"] = javascript["devDependencies"]["@kafkats/client"]
    module = (compat / "go" / "go.mod").read_text(encoding="utf-8")
    found["franz-go"] = re.findall(r"twmb/franz-go v(\S+)", module)[0]
    found["Sarama"] = re.findall(r"IBM/sarama v(\S+)", module)[0]
    for name, folder in (("Java's client", "java"), ("Java's client: share groups and tools", "share")):
        pom = (compat / folder / "pom.xml").read_text(encoding="utf-8")
        found[name] = re.findall(r"<artifactId>kafka-clients</artifactId>\s*<version>([^<]+)<", pom)[0]
    lines = ["| client | version |", "|---|---|", *(f"| {name} | {version} |" for name, version in found.items())]
    return "\n".join(lines) + "\n"


def page(data: dict[str, Any]) -> str:
    """Return the page."""
    drawn = data["drawn"]
    told = _requests(data)
    asked = sum(each["requests"] for api in drawn["apis"].values() for each in api["versions"].values())
    introduction = INTRODUCTION.format(
        kafka=data["kafka"],
        date=data["date"],
        requests=told + asked + _requests(data["tier"]),
        told=told,
        drawn=asked,
        drawn_date=drawn["date"],
        clients=len(drawn["clients"]),
        kinds=", ".join(drawn["clients"]),
        left_out=left_out(),
    )
    return (
        introduction
        + api_table(data)
        + "\n[Skipped features](skipped-features.md) has what is left out, with the features that have no API. "
        + "[Kafka by version](as-version.md) tells how a broker\nanswers as an older release does.\n"
        + WITH_A_TIER.format(date=data["tier"]["date"], requests=_requests(data["tier"]))
        + tier_table(data["tier"])
        + f"\n## Known differences\n\n{differences()}"
        + f"\n## Outside suites\n\n[Outside suites](outside-suites.md) tells how they ran.\n\n{suites()}"
        + f"\n## Clients\n\nThese run in the tests of this repository.\n\n{clients()}"
        + f"\n## Frameworks\n\n[Frameworks](frameworks.md) shows how each is used.\n\n{frameworks()}"
    )


def _requests(data: dict[str, Any]) -> int:
    return sum(each["requests"] for versions in data["apis"].values() for each in versions.values())


def read_data() -> dict[str, Any]:
    """Return the data of the last run."""
    data: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    data["drawn"] = json.loads(DRAWN.read_text(encoding="utf-8"))
    data["tier"] = json.loads(TIER.read_text(encoding="utf-8"))
    return data


def draw(names: Sequence[str] = ()) -> int:
    """Compare what is drawn; write the data. Return how many differences are not known, which are printed.

    Args:
        names: of the APIs that are compared; the data of the others stay. All if there are none.
    """
    from tests.compat.same_answers.drawn import Drawn, ask_everywhere, known

    started = time.monotonic()
    drawn = Drawn()
    ask_everywhere(drawn, [key for key in ApiKey if name_of(key) in names])
    lines = [line for found in drawn.found.values() for line in found if not known(line)]
    print("\n".join(lines))
    took_seconds = time.monotonic() - started
    print(f"{sum(drawn.requests.values())} draws in {took_seconds:.0f} s; {len(lines)} differences are not in the list")
    before = json.loads(DRAWN.read_text(encoding="utf-8"))["apis"] if names else {}
    DRAWN.write_text(drawn.told(_today(), before), encoding="utf-8")
    return len(lines)


def _today() -> str:
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def run() -> int:
    """Compare but for the tier; write the data. Return how many differences are not known, which are printed."""
    return _compare(DATA, {"guarded": False}, {"guarded": True})


def _compare(target: Path, *kinds: dict[str, bool]) -> int:
    """Compare histories of these kinds of clusters; write the data, and return how many differences are not known."""
    from tests.compat.same_answers.compare import KAFKA_VERSION, RUNS, Compared, clusters

    started = time.monotonic()
    compared, unknown = Compared(), 0
    for kind in kinds:
        wanted = {"guarded": False, "tiered": False, **kind}
        with clusters(**kind) as sides:
            for each in (run for run in RUNS if all(getattr(run, name) == is_so for name, is_so in wanted.items())):
                found = compared.add(each, sides)
                unknown += len(found)
                for line in found:
                    print(f"{each.name}: {line}")
    took_seconds = time.monotonic() - started
    print(f"{compared.runs} histories in {took_seconds:.0f} s; {unknown} differences are not in the list")
    target.write_text(told(compared, KAFKA_VERSION, _today()), encoding="utf-8")
    return unknown


def told(compared: Any, kafka: str, date: str) -> str:
    """Return the data of a run: what was compared, and the patterns of `KNOWN` that were seen, as JSON."""
    from tests.compat.same_answers.compare import known

    apis: dict[str, dict[str, Any]] = {}
    for (key, version), requests in sorted(compared.answers.items()):
        seen = {pattern for line in compared.found.get((key, version), ()) for pattern in known(line)}
        row = {"requests": requests, "known": [pattern for pattern in KNOWN if pattern in seen]}
        apis.setdefault(name_of(key), {})[str(version)] = row
    return json.dumps({"kafka": kafka, "date": date, "apis": apis}, indent=1, ensure_ascii=False) + "\n"


def known_names(names: Sequence[str]) -> bool:
    """Return whether all of these are names of APIs."""
    return set(names) <= {name_of(key) for key in ApiKey}


def main(argv: Sequence[str]) -> int:
    """Compare, write or print the page; return 1 if a difference is not known, and 2 if the arguments are wrong."""
    unknown = 0
    names = argv[1:] if argv[:1] == ["--draw"] else ()
    known = ([], ["--run"], ["--draw"], ["--tier"], ["--write"])
    if argv[: len(argv) - len(names)] not in known or not known_names(names):
        print(__doc__, file=sys.stderr)
        return 2
    if argv == ["--run"]:
        unknown = run()
    if argv in (["--run"], ["--tier"]):
        unknown += _compare(TIER, {"tiered": True})
    if argv[:1] in (["--run"], ["--draw"]):
        unknown += draw(names)
    text = page(read_data())
    if argv:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
