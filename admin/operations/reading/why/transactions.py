"""Rules about transactions that stay open, and producers that were fenced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import NOTED, STUCK, Conclusion, Facts
from purgatorio.admin.operations.reading.why.known import name_of as partition_of
from purgatorio.admin.operations.reading.why.refusals import REFUSED, name_of
from purgatorio.broker.causes.words import seconds

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
                f"transaction {owner}{client} is open since {seconds(by['open_ms'])}; if that is not meant, commit or "
                "abort it, or read with isolation.level=read_uncommitted"
            )
        yield Conclusion(says, (position["client"], position["topic"], owner), STUCK + 2)


def skips_what_was_aborted(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers of committed records that have read a partition in which there is but an aborted transaction."""
    aborted = {(row["topic"], row["partition"]): row for row in facts.document["aborted"]}
    for position in facts.positions:
        place = position["topic"], position["partition"]
        row, log = aborted.get(place), facts.partitions.get(place)
        if row is None or log is None or position["isolation"] != "read_committed":
            continue
        end = log["high_watermark"]
        begins_before = max(position["first_offset"], row["first_offset"]) <= log["log_start_offset"]
        if begins_before and row["marker_offset"] == end - 1 and position["offset"] >= end:
            owner = row["transactional_id"] or f"of producer {row['producer_id']}"
            says = (
                f"{position['client']} reads {partition_of(position)} read_committed, and skips the records of "
                f"transaction {owner} from offset {row['first_offset']} on: it was aborted; if that is not meant, "
                "commit it, or read with isolation.level=read_uncommitted"
            )
            yield Conclusion(says, (position["client"], position["topic"], owner), NOTED)


def was_fenced(facts: Facts) -> Iterator[Conclusion]:
    """Yield transactional producers that are refused, as their transaction ran out, or as another one began.

    Of several reasons the first one since the producer began counts; nothing is said where its begin is not known.
    """
    for row in facts.errors:
        name = row["transactional_id"]
        if not name or not FENCED & set(row["errors"]):
            continue
        begun = [each for each in _begun(facts, name) if each["at_ms"] <= row["first_ms"]]
        own = [each["at_ms"] for each in begun if each["client"] == row["client"]]
        if not own:
            continue
        ran_out = [each for each in facts.document["timed_out"] if each["transactional_id"] == name]
        after = [each for each in (*ran_out, *begun) if own[-1] <= each["at_ms"] <= row["first_ms"]]
        first = next((each for each in sorted(after, key=_moment) if each.get("client") != row["client"]), None)
        refused = f"({row['api']}: {', '.join(row['errors'])})"
        if first is not None and "open_ms" in first:
            why = "on request" if first["is_early"] else "transaction.timeout.ms"
            ran = f"the transaction of {name} ran out after {seconds(first['open_ms'])} ({why})"
            says = f"{ran}, so {name_of(row)}'s next request was refused {refused}"
            if not first["is_early"]:
                says += "; end it sooner, or raise that"
        elif first is not None or (len(own) > 1 and not ran_out):
            other = "another producer" if first is None else name_of(first)
            says = (
                f"{name_of(row)} is fenced {refused}: {other} began with the same transactional.id, {name}, after it; "
                "if that is not meant, give each producer its own"
            )
        else:
            continue
        yield Conclusion(says, (row["client"], name), REFUSED)


def _moment(row: Answer) -> int:
    return int(row["at_ms"])


def _begun(facts: Facts, transactional_id: str) -> list[Answer]:
    rows = [each for each in facts.document["producers"] if each["transactional_id"] == transactional_id]
    return sorted(rows, key=_moment)


def _begun_by(facts: Facts, transactional_id: str) -> Answer | None:
    rows = _begun(facts, transactional_id)
    return rows[-1] if rows else None


RULES: Final = (waits_for_a_transaction, skips_what_was_aborted, was_fenced)
