"""The checks that a scenario names: each compares what was sent with what arrived.

A check is a function from `Arrived` to sentences, one for each violation; `CHECKS` has them by their names, which are
those of Jepsen's Kafka workload where it has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from purgatorio.late import dataclass
from purgatorio.testing.simulate.errors import CheckFailed
from purgatorio.testing.simulate.names import no_such

MAX_NAMED: Final = 5
"""The values that a sentence names."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """The two sides that a check compares.

    Attributes:
        sent: the values that the world produced and brokers acknowledged, in order.
        maybe: values whose fate is unknown: they may have arrived.
        arrived: the values in the sink, in order.
        partitions: the partition that each value was sent to.
    """

    sent: Sequence[str]
    maybe: frozenset[str]
    arrived: Sequence[str]
    partitions: Mapping[str, str] = field(default_factory=dict)


def lost(of: Arrived) -> Iterator[str]:
    """A value that was sent did not arrive."""
    arrived = set(of.arrived)
    missing = [value for value in of.sent if value not in arrived]
    if missing:
        yield f"{len(missing)} of {len(of.sent)} values did not arrive: {_named(missing)}"


def duplicates(of: Arrived) -> Iterator[str]:
    """A value arrived more than once."""
    twice = {value: count for value, count in Counter(of.arrived).items() if count > 1}
    if twice:
        yield f"{len(twice)} of {len(of.sent)} values arrived more than once: {_named(list(twice))}"


def unexpected(of: Arrived) -> Iterator[str]:
    """A value arrived that was not sent."""
    sent = of.maybe.union(of.sent)
    others = [value for value in of.arrived if value not in sent]
    if others:
        yield f"{len(others)} values arrived that were not sent: {_named(others)}"


def disorder(of: Arrived) -> Iterator[str]:
    """A value arrived for the first time after one of its partition that was sent later.

    Values that arrive again are no disorder: a service that was killed begins again at its last commit.
    """
    nth = {value: place for place, value in enumerate(of.sent)}
    last: dict[str, str] = {}
    late = []
    for value in dict.fromkeys(of.arrived):
        partition = of.partitions.get(value)
        if partition is None or value not in nth:
            continue
        before = last.setdefault(partition, value)
        if nth[value] < nth[before]:
            late.append(f"{value} after {before} of {partition}")
        else:
            last[partition] = value
    if late:
        yield f"{len(late)} values arrived after later ones of their partition: {_named(late)}"


def exactly_once(of: Arrived) -> Iterator[str]:
    """A value that was sent did not arrive exactly once."""
    yield from lost(of)
    yield from duplicates(of)
    yield from unexpected(of)


CHECKS: Final[dict[str, Callable[[Arrived], Iterator[str]]]] = {
    "exactly-once": exactly_once,
    "lost": lost,
    "duplicates": duplicates,
    "unexpected": unexpected,
    "order": disorder,
}


def check(name: str, arrived: Arrived) -> None:
    """Run a check.

    Raises:
        CheckFailed: it found a violation.
        ValueError: there is no check of this name.
    """
    if name not in CHECKS:
        raise no_such("check", name, CHECKS)
    found = list(CHECKS[name](arrived))
    if found:
        raise CheckFailed(name, "; ".join(found))


def text_of(value: object) -> str:
    """Return a value as checks compare it: bytes and numbers as text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _named(values: Sequence[str]) -> str:
    more = f" and {len(values) - MAX_NAMED} more" if len(values) > MAX_NAMED else ""
    return ", ".join(values[:MAX_NAMED]) + more
