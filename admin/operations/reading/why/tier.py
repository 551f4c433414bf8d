"""The rules about consumers whose records are in the tier, and do not come back, or come back late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from purgatorio.admin.operations.reading.why.known import STUCK, WAITS, Conclusion, Facts
from purgatorio.admin.operations.reading.why.refusals import name_of
from purgatorio.broker.causes.kinds import REMOTE_FETCH, REMOTE_LIST_OFFSETS

LATELY_MS: Final = 5_000
"""A fetch that has ended without its records so long ago is the consumer's last one."""
_WAITS_IN: Final = (REMOTE_FETCH.purgatory, REMOTE_LIST_OFFSETS.purgatory)
JOINS: Final = "; it joins another fetch's read"
"""The end of a sentence that says nothing to a client's owner."""


def waits_for_the_tier(facts: Facts) -> Iterator[Conclusion]:
    """Yield clients that wait for the tier, or whose last fetch ended without what it waited for."""
    waiting = [(row, row["missing"]) for row in facts.parked if row["purgatory"] in _WAITS_IN]
    ended = [
        (row, row["detail"])
        for row in facts.ended
        if row["purgatory"] in _WAITS_IN and facts.now_ms - row["done_ms"] <= LATELY_MS
    ]
    found: dict[str, None] = {}
    for row, words in (*waiting, *ended):
        if row["client"] in found:
            continue
        rules = [cause.get("held_by") for cause in row["causes"] if isinstance(cause, dict)]
        held_by = next((each for each in rules if each is not None), None)
        if held_by is not None and not any(each["id"] == held_by and each["held"] for each in facts.document["faults"]):
            continue  # it was let go meanwhile
        found[row["client"]] = None
        advice = "" if held_by is None else f"; release fault rule {held_by}{_named(facts, held_by)}"
        says = f"{name_of(row)} {words.replace(JOINS, '')}{advice}"
        yield Conclusion(says, (row["client"],), WAITS if held_by is None else STUCK)


def reads_that_fail_by_a_rule(facts: Facts) -> Iterator[Conclusion]:
    """Yield clients that get errors for topics whose reads of the tier a fault rule fails."""
    rules: dict[str, tuple[int, str]] = {}
    for row in facts.document["fired"]:
        if row["api"] in ("tier get", "tier list"):
            for partition in row["partitions"]:
                rules.setdefault(partition.rpartition("-")[0], (row["rule"], row["action"]))
    for error in facts.errors:
        if "UNKNOWN_SERVER_ERROR" not in error["errors"]:
            continue
        for topic in error["topics"]:
            if topic in rules:
                rule, action = rules[topic]
                by = f"fault rule {rule}{_named(facts, rule)} acts on reads of the tier ({action}); remove it"
                says = f"{name_of(error)} gets UNKNOWN_SERVER_ERROR for {topic}: {by}"
                yield Conclusion(says, (error["client"], topic), STUCK)


def _named(facts: Facts, rule_id: int) -> str:
    rules: list[dict[str, Any]] = [each for each in facts.document["faults"] if each["id"] == rule_id]
    name = rules[0]["rule"].get("name", "") if rules else ""
    return f" ({name})" if name else ""


RULES: Final = (waits_for_the_tier, reads_that_fail_by_a_rule)
