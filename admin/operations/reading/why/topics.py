"""Rules about topics that do not exist, or that have another name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import NOTED, STUCK, Conclusion, Facts
from purgatorio.admin.operations.reading.why.refusals import fault_of, is_over, name_of
from purgatorio.broker.causes.words import listed, plural

MISSING: Final = "UNKNOWN_TOPIC_OR_PARTITION"
USES: Final = frozenset(
    (
        *("Fetch", "ListOffsets", "Produce", "InitProducerId", "ShareFetch", "ShareGroupHeartbeat"),
        *("FindCoordinator", "JoinGroup", "ConsumerGroupHeartbeat"),
    )
)
"""The APIs of clients that read or write."""
INSISTS_COUNT: Final = 2
"""So often a client asks for a missing topic that it wants to use; it asks once whether there is one."""
NAMES_SHOWN: Final = 5
MAX_COMPARED: Final = 10
"""Topics whose names are compared with all others, by each rule: a comparison takes some microseconds, or a hundred."""
MAX_COMPARED_CHARS: Final = 100
"""Longer names are not compared: the time grows with the square of the length."""


def asks_for_a_missing_topic(facts: Facts) -> Iterator[Conclusion]:
    """Yield clients that ask for topics which do not exist, with the nearest of those that do.

    Nothing is said of a client that only asks whether there is one, nor of one that has gone on to another topic.
    """
    names: list[str] = facts.document["topics"]
    if facts.document["topic_count"] > len(names):
        return
    asked: dict[tuple[str, str], None] = {}
    known, hints = dict.fromkeys(names), dict[str, str]()
    users = {each["client"] for each in facts.document["asked"] if each["may_create"] or USES & set(each["apis"])}
    used = _used(facts)
    for row in facts.errors:
        wants = row["client"] in users or row["count"] >= INSISTS_COUNT
        if MISSING in row["errors"] and wants and fault_of(facts, row) is None:
            for topic in row["topics"]:
                if topic not in known and not _went_on(facts, row, _near(topic, names, hints), used):
                    asked.setdefault((name_of(row), topic))
    for client, topic in asked:
        says = f"{client} asks for topic {topic}, which does not exist{_those_that_do(topic, names, hints)}"
        yield Conclusion(says, (client, topic), STUCK + 3)


def _went_on(facts: Facts, row: Answer, near: str, used: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether a client reads or writes the topic of the nearest name since, or asks for others alone."""
    since = [topic for topic, last_ms in used.get(row["client"], {}).items() if last_ms >= row["last_ms"]]
    return near in since or (bool(since) and is_over(facts, row))


def _used(facts: Facts) -> dict[str, dict[str, int]]:
    """Return the topics that each client reads or writes, with when it did so last."""
    found: dict[str, dict[str, int]] = {}
    for each in facts.positions:
        found.setdefault(each["client"], {})[each["topic"]] = each["last_ms"]
    for each in facts.document["requests"]:
        if each["api"] == "Produce" and not each["errors"]:
            found.setdefault(each["client"], {}).update(dict.fromkeys(each["topics"], each["at_ms"]))
    return found


def _those_that_do(topic: str, names: Sequence[str], hints: dict[str, str]) -> str:
    if near := _near(topic, names, hints):
        return f"; did you mean {near}? Correct the name, or create the topic"
    if not names:
        return ", and there is no other; create it"
    more = len(names) - NAMES_SHOWN
    shown = listed(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"; there {'is' if len(names) == 1 else 'are'} {shown}. Correct the name, or create the topic"


def _near(topic: str, names: Sequence[str], hints: dict[str, str]) -> str:
    """Return the nearest name, which is kept in `hints`; "" if none is near, or too many were looked for."""
    if topic not in hints and len(hints) < MAX_COMPARED:
        hints[topic] = nearest(topic, names)
    return hints.get(topic, "")


def nearest(topic: str, names: Sequence[str]) -> str:
    """Return the name that is most like a topic's; "" if none is, or the topic's is very long."""
    if len(topic) > MAX_COMPARED_CHARS:
        return ""
    spelled = {each.replace("_", "-").replace(".", "-").lower(): each for each in names}
    found = difflib.get_close_matches(topic.replace("_", "-").replace(".", "-").lower(), spelled, n=1, cutoff=0.75)
    return spelled[found[0]] if found else ""


def reads_a_topic_whose_neighbour_has_the_records(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers of an empty topic beside one of nearly the same name that has records."""
    counts = _counts(facts)
    full, hints = [name for name, count in counts.items() if count], dict[str, str]()
    for client, topic in dict.fromkeys((each["client"], each["topic"]) for each in facts.positions):
        if counts.get(topic, 1) == 0 and (near := _near(topic, full, hints)):
            says = (
                f"{client} reads {topic}, which is empty: {near} has {plural(counts[near], 'record')}. Correct the name"
            )
            yield Conclusion(says, (client, topic, near), NOTED)


def _counts(facts: Facts) -> dict[str, int]:
    return {
        name: sum(row["high_watermark"] - row["log_start_offset"] for row in rows)
        for name, rows in facts.topics.items()
    }


def asked_before_the_topic_was_there(facts: Facts) -> Iterator[Conclusion]:
    """Yield clients that asked for a topic before it existed, so that it was created, beside one of nearly its name."""
    counts, hints = _counts(facts), dict[str, str]()
    missing = (row for row in facts.errors if MISSING in row["errors"])
    early = dict.fromkeys((name_of(row), topic) for row in missing for topic in row["topics"] if topic in counts)
    for client, topic in list(early)[:MAX_COMPARED]:
        others = [name for name in counts if name != topic and not (counts[topic] and counts[name])]
        near = _near(topic, others, hints)
        if near and not _has_a_word_more(*sorted((topic, near), key=len)):
            has = plural(counts[near], "record")
            says = (
                f"{client} asked for topic {topic}, which was not there yet: there is {near}, too, which "
                f"{f'has {has}' if counts[near] else 'is empty'}; is {topic} misspelt?"
            )
            yield Conclusion(says, (client, topic, near), NOTED + 5)


def _has_a_word_more(short: str, long: str) -> bool:
    return long.startswith(short) and long[len(short) : len(short) + 1] in "-._"


RULES: Final = (
    asked_before_the_topic_was_there,
    asks_for_a_missing_topic,
    reads_a_topic_whose_neighbour_has_the_records,
)
