"""From facts to sentences: asks every rule, and puts the conclusions in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from purgatorio.admin.operations.reading.why import (
    brokers,
    consumers,
    producers,
    quotas,
    refusals,
    share_groups,
    tier,
    topics,
    transactions,
)
from purgatorio.admin.operations.reading.why.known import CALM, OF_ANOTHER, Conclusion, Facts
from purgatorio.broker.time.long_work import Steps

Rule = Callable[[Facts], Iterable[Conclusion]]

RULES: Final[tuple[Rule, ...]] = (
    *brokers.RULES,
    *refusals.RULES,
    *transactions.RULES,
    *topics.RULES,
    *consumers.RULES,
    *share_groups.RULES,
    *tier.RULES,
    *quotas.RULES,
    *producers.RULES,
)
"""All rules; the order matters only between conclusions of the same weight."""


COST_OF_ROW: Final = 3
"""The cost of what a rule reads (see `LongWork`)."""
COST_OF_SENTENCE: Final = 20


def conclude(facts: Facts, about: str = "") -> list[Conclusion]:
    """Return what follows from facts, what weighs most first, each sentence once.

    Args:
        about: only conclusions about this group, topic or client id; "": all.
    """
    found: list[Conclusion] = []
    for _ in concluding(facts, found, about):
        pass
    return found


def concluding(facts: Facts, found: list[Conclusion], about: str = "") -> Steps:
    """Add to a list what `conclude` returns, in steps: a rule, or a sentence of it."""
    said: dict[str, Conclusion] = {}
    others = frozenset(facts.document["left_over"])
    rows = 1 + len(facts.positions) + len(facts.errors) + sum(group["member_count"] for group in facts.groups)
    for rule in RULES:
        for each in rule(facts):
            groups = facts.concerned(each.about)
            if not about or about in each.about or about in groups:
                is_of_another = not others.isdisjoint(each.about[:1]) and rule is not consumers.was_there_before
                weight = min(each.weight, OF_ANOTHER) if is_of_another else each.weight
                said.setdefault(each.says, each._replace(weight=weight, about=(*each.about, *groups)))
            yield COST_OF_SENTENCE
        yield COST_OF_ROW * rows
    ranked = sorted(said.values(), key=lambda each: -each.weight)
    found += [each for each in ranked if each.weight > CALM] or ranked
