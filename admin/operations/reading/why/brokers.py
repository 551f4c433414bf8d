"""Rules about brokers that do not run, or stand still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import STUCK, WAITS, Conclusion, Facts, name_of
from purgatorio.broker.causes.words import listed, plural

DEAD: Final = STUCK + 9
"""The weight of a conclusion about brokers without which nothing else counts."""


def none_runs(facts: Facts) -> Iterator[Conclusion]:
    """Yield one conclusion if no broker runs."""
    if facts.brokers and not any(map(_runs, facts.brokers)):
        ids = [str(each["id"]) for each in facts.brokers]
        says = f"no broker runs: {listed(ids)} {'was' if len(ids) == 1 else 'were'} stopped or killed; start one"
        yield Conclusion(says, (), DEAD)


def leads_nothing(facts: Facts) -> Iterator[Conclusion]:
    """Yield topics whose partitions have no leader, with the brokers that could lead them."""
    if not any(map(_runs, facts.brokers)):
        return
    running = {each["id"] for each in facts.brokers if _runs(each)}
    for topic, rows in facts.topics.items():
        offline = [row for row in rows if row["offline"]]
        if offline:
            away = [str(each["broker"]) for each in offline[0]["replicas"] if each["broker"] not in running]
            more = f" and {plural(len(offline) - 1, 'more partition')} of it" if len(offline) > 1 else ""
            verb = "have" if more else "has"
            replicas = f": broker {listed(away)} of its replicas does not run; start it" if len(away) == 1 else ""
            if len(away) > 1:
                replicas = f": brokers {listed(away)}, its replicas, do not run; start one"
            if offline[0]["leader"] in running:
                replicas = f": broker {offline[0]['leader']} is elected, and waits to hear what the tier has of it"
            yield Conclusion(f"{name_of(offline[0])}{more} {verb} no leader{replicas}", (topic,), DEAD)


def stands_still(facts: Facts) -> Iterator[Conclusion]:
    """Yield brokers that are paused, with the topics that they lead."""
    for broker in facts.brokers:
        if broker["paused"]:
            led = [topic for topic, rows in facts.topics.items() if any(row["leader"] == broker["id"] for row in rows)]
            leads = f", and leads {listed(led)}" if 0 < len(led) <= 3 else ""
            says = f"broker {broker['id']} is paused{leads}: what it is asked waits; resume it"
            yield Conclusion(says, tuple(led), WAITS)


def _runs(row: Answer) -> bool:
    return bool(row["state"] == "running")


RULES: Final = (none_runs, leads_nothing, stands_still)
