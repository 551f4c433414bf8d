"""Rules about transactions that stay open, and producers that were fenced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import STUCK, Conclusion, Facts, seconds
from purgatorio.admin.operations.reading.why.known import name_of as partition_of
from purgatorio.admin.operations.reading.why.refusals import REFUSED, name_of

FENCED: Final = frozenset(("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"))


def waits_for_a_transaction(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers that read committed records only, behind a transaction that is open."""
    for position in facts.positions:
        by = position["held_back_by"]
        if not by or by["kind"] != "OpenTransaction":
            continue
        owner = by["transactional_id"] or f"producer {by['producer_id']}"
        begun = _begun_by(facts, by["transactional_id"])
        client = f" of {begun['client']}" if begun and begun["client"] else ""
        reads = f"{position['client']} reads {partition_of(position)} read_committed"
        says = f"{reads}, only up to offset {by['first_offset']}: "
        if by["open_ms"] is None:
            says += f"the end of transaction {owner}{client} is not written yet"
        else:
            says += (
                f"transaction {owner}{client} is open since {seconds(by['open_ms'])}; commit or abort it, or read with "
                "isolation.level=read_uncommitted"
            )
        yield Conclusion(says, (position["client"], position["topic"], owner), STUCK + 2)


def was_fenced(facts: Facts) -> Iterator[Conclusion]:
    """Yield transactional producers that another one of the same transactional id has put out of work."""
    for row in facts.errors:
        name = row["transactional_id"]
        if not name or not FENCED & set(row["errors"]):
            continue
        newest = _begun_by(facts, name)
        other = newest["client"] if newest and newest["client"] != row["client"] else "another producer"
        says = (
            f"{name_of(row)} is fenced ({row['api']}: {', '.join(row['errors'])}): {other} began with the same "
            f"transactional.id, {name}, after it; give each producer its own"
        )
        yield Conclusion(says, (row["client"], name), REFUSED)


def _begun_by(facts: Facts, transactional_id: str) -> Answer | None:
    rows = [each for each in facts.document["producers"] if each["transactional_id"] == transactional_id]
    return max(rows, key=lambda each: int(each["at_ms"]), default=None)


RULES: Final = (waits_for_a_transaction, was_fenced)
