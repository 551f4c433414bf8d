"""Rules about topics that do not exist, or that have another name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Final

from purgatorio.admin.operations.reading.why.known import NOTED, STUCK, Conclusion, Facts, plural
from purgatorio.admin.operations.reading.why.refusals import name_of
from purgatorio.broker.causes.words import listed

MISSING: Final = "UNKNOWN_TOPIC_OR_PARTITION"
NAMES_SHOWN: Final = 5


def asks_for_a_missing_topic(facts: Facts) -> Iterator[Conclusion]:
    """Yield clients that ask for topics which do not exist, with the nearest of those that do."""
    names: list[str] = facts.document["topics"]
    if facts.document["topic_count"] > len(names):
        return
    asked: dict[tuple[str, str], None] = {}
    for row in facts.errors:
        if MISSING in row["errors"]:
            for topic in row["topics"]:
                if topic not in names:
                    asked.setdefault((name_of(row), topic))
    for client, topic in asked:
        says = f"{client} asks for topic {topic}, which does not exist{_those_that_do(topic, names)}"
        yield Conclusion(says, (client, topic), STUCK + 3)


def _those_that_do(topic: str, names: Sequence[str]) -> str:
    near = nearest(topic, names)
    if near:
        return f"; did you mean {near}? Correct the name, or create the topic"
    if not names:
        return ", and there is no other; create it"
    more = len(names) - NAMES_SHOWN
    shown = listed(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"; there {'is' if len(names) == 1 else 'are'} {shown}. Correct the name, or create the topic"


def nearest(topic: str, names: Sequence[str]) -> str:
    """Return the name that is most like a topic's; "" if none is."""
    spelled = {each.replace("_", "-").replace(".", "-").lower(): each for each in names}
    found = difflib.get_close_matches(topic.replace("_", "-").replace(".", "-").lower(), spelled, n=1, cutoff=0.75)
    return spelled[found[0]] if found else ""


def reads_a_topic_whose_neighbour_has_the_records(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers of an empty topic beside one of nearly the same name that has records."""
    counts = {
        name: sum(row["high_watermark"] - row["log_start_offset"] for row in rows)
        for name, rows in facts.topics.items()
    }
    for client, topic in dict.fromkeys((each["client"], each["topic"]) for each in facts.positions):
        full = [name for name, count in counts.items() if count and name != topic]
        if counts.get(topic, 1) == 0 and (near := nearest(topic, full)):
            says = (
                f"{client} reads {topic}, which is empty: {near} has {plural(counts[near], 'record')}. Correct the name"
            )
            yield Conclusion(says, (client, topic, near), NOTED)


RULES: Final = (asks_for_a_missing_topic, reads_a_topic_whose_neighbour_has_the_records)
