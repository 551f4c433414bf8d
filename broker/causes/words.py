"""Causes in words, for people: how the sentences of many are put together, and what these have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, Final

from purgatorio.broker.causes.why import DescribeFate, Why
from purgatorio.broker.log.topic_partition import TopicPartition

MAX_NAMED: Final = 5
"""The most partitions or members that a sentence names, and that causes hold."""
MAX_SHOWN: Final = 100
"""The most characters of an id that pages and events show."""


def in_words(causes: Iterable[Any], fate: DescribeFate = lambda transaction: "") -> str:
    """Return a sentence: "orders-0 and orders-1: broker 3 is at 40 of 42; bills-0: broker 2 has not fetched yet".

    It names each partition once, and partitions that wait for the same together.

    Args:
        causes: each a `Cause`, or anything else that says itself by `str`.
        fate: is asked about each open transaction that is named.
    """
    said: dict[Any, list[str]] = {}
    for number, cause in enumerate(causes):
        words = cause.sentence(fate) if isinstance(cause, Why) else str(cause)
        said.setdefault(getattr(cause, "tp", number), []).append(words)
    alike: dict[str, list[TopicPartition]] = {}
    for place, sentences in said.items():
        partitions = alike.setdefault(", ".join(sentences), [])
        if isinstance(place, TopicPartition):
            partitions.append(place)
    return "; ".join(f"{listed(tps)}: {words}" if tps else words for words, tps in alike.items())


def listed(names: Sequence[object], more_count: int = 0) -> str:
    """Return names in a sentence, of many the first ones: "a", "a and b", "a, b and 7 more"."""
    first = [str(name) for name in islice(names, MAX_NAMED)]
    more_count += len(names) - len(first)
    if more_count:
        first.append(f"{more_count} more")
    return f"{', '.join(first[:-1])} and {first[-1]}" if len(first) > 1 else "".join(first)


def shortened(an_id: str) -> str:
    """Return an id, cut if it is very long: clients choose those of groups and transactions, of up to 32 KiB."""
    return an_id if len(an_id) <= MAX_SHOWN else f"{an_id[:MAX_SHOWN]}…"


def and_more(count: int) -> str:
    """Return how many things a sentence does not name, as its end; "" if it names all."""
    return f" and {count} more" if count else ""


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 record", "2 records"."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def seconds(ms: float) -> str:
    """Return a time, given in milliseconds, in a sentence: "1.5 s", from ten seconds on "12 s"."""
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms / 1000:.0f} s"


def bytes_per_second(rate: float) -> str:
    """Return a rate in the unit that suits it: "3 kB/s"."""
    return f"{size(rate)}/s"


def size(number: float) -> str:
    """Return bytes in the unit that suits them: "3 kB"."""
    for unit, unit_bytes in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= unit_bytes:
            return f"{number / unit_bytes:.3g} {unit}"
    return f"{number:.3g} B"


def away(location: str, away_ms: int, trouble: str) -> str:
    """Return for how long the store of the tier has not worked: "s3://shop has not worked for 40 s (503)"."""
    return f"{location} has not worked for {seconds(away_ms)} ({shortened(trouble)})"


def as_document(value: Any, max_chars: int) -> Any:
    """Return a cause as JSON has it: an object with its kind, such as "FollowerBehind", and its fields.

    Args:
        max_chars: the length to which texts are cut: clients choose ids.
    """
    if isinstance(value, str):
        return value[:max_chars]
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, tuple):
        return [as_document(each, max_chars) for each in value]
    if is_dataclass(value):
        made = {each.name: as_document(getattr(value, each.name), max_chars) for each in fields(value)}
        return {"kind": type(value).__name__, **made}
    return value if value is None or isinstance(value, (int, float)) else str(value)
