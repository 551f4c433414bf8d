"""From facts to sentences: asks every rule, and puts the conclusions in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from purgatorio.admin.operations.reading.why import (
    brokers,
    consumers,
    producers,
    refusals,
    share_groups,
    topics,
    transactions,
)
from purgatorio.admin.operations.reading.why.known import CALM, Conclusion, Facts

Rule = Callable[[Facts], Iterable[Conclusion]]

RULES: Final[tuple[Rule, ...]] = (
    *brokers.RULES,
    *refusals.RULES,
    *transactions.RULES,
    *topics.RULES,
    *consumers.RULES,
    *share_groups.RULES,
    *producers.RULES,
)
"""All rules; the order matters only between conclusions of the same weight."""


def conclude(facts: Facts, about: str = "") -> list[Conclusion]:
    """Return what follows from facts, what weighs most first, each sentence once.

    Args:
        about: only conclusions about this group, topic or client id; "": all.
    """
    found: dict[str, Conclusion] = {}
    for rule in RULES:
        for each in rule(facts):
            if not about or about in each.about:
                found.setdefault(each.says, each)
    ranked = sorted(found.values(), key=lambda each: -each.weight)
    return [each for each in ranked if each.weight > CALM] or ranked
