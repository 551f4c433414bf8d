"""A fault rule about calls of the tier's object store, as data, and one at work.

The names are the same in Python, in HTTP's JSON, on the command line and in files::

    {"tier": "get", "topic": "orders", "error": "Unavailable", "count": 3}

A call is about one partition, which the name of the object says. A rule without `topic` is about the store's other
objects, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from purgatorio.broker.layers.faults.live_rule import LiveFault
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.layers.faults.rule import MAX_COUNT, MAX_DELAY_MS, MAX_TEXT, FaultError, probability
from purgatorio.broker.tier.store import Exists, NotThere, Refused, StoreError, Unavailable
from purgatorio.late import dataclass

CALLS: Final = ("get", "put", "list", "delete")
ERRORS: Final[Mapping[str, type[StoreError]]] = {
    each.__name__: each for each in (Unavailable, Refused, NotThere, Exists)
}
ONLY_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "truncate_bytes": ("get",),
    "corrupt": ("get", "put"),
    "lose": ("put", "delete"),
}
"""The actions that not all calls have."""
_ERRORS_OF: Final[Mapping[str, tuple[str, ...]]] = {"NotThere": ("get",), "Exists": ("put",)}
MAX_BYTES: Final = 2**40

TIER_WORDS: Final = {
    "tier": "a rule about calls of the tier's object store instead: get, put, list or delete",
    "topic, partition, broker": "which calls",
    "nth, count, probability": "how often",
    "delay_ms, hold": "wait before the call, or until the rule is released",
    "error": "fail with Unavailable, Refused, NotThere (get) or Exists (put); the call is not made",
    "truncate_bytes, corrupt": "give back so many bytes and no more (get), or a wrong bit (get, put)",
    "lose": "say that it is done, and do nothing (put, delete)",
}
"""The meanings of the names, for the list of the HTTP API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule:
    """A fault rule about calls of the tier's object store; see `parse_tier_rule`.

    Attributes:
        tier: the call: "get", "put", "list" or "delete".
        topic: of this topic's objects only.
        partition: of this partition's only.
        broker: by the broker of this id only.
        nth: only this call of those that match, counted from 1.
        count: the most calls that the rule acts on; None: no limit.
        probability: the share of the calls that match; drawn from the cluster's seed.
        delay_ms: wait before the call.
        hold: do not make it before `release` is called. The broker's own time-outs go on: a get has 30 s, a put 120.
        error: fail with this error of the store, "Unavailable", "Refused", "NotThere" or "Exists"; the call is not
            made. Only after Unavailable does a broker try again at once.
        truncate_bytes: of a get: give back at most so many bytes.
        corrupt: of a get: give back a wrong bit; of a put: write one, which stays.
        lose: of a put or delete: say that it is done, and do nothing.
        name: a name for lists and reports.
    """

    tier: str
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    nth: int | None = None
    count: int | None = None
    probability: float | None = None
    delay_ms: int = 0
    hold: bool = False
    error: str | None = None
    truncate_bytes: int | None = None
    corrupt: bool = False
    lose: bool = False
    name: str = ""

    @property
    def budget(self) -> int | None:
        """The most calls that the rule acts on; None: no limit."""
        return 1 if self.nth is not None else self.count

    @property
    def actions(self) -> list[str]:
        """The names of what it does to the call itself."""
        set_ones = {
            "error": self.error is not None,
            "truncate_bytes": self.truncate_bytes is not None,
            "corrupt": self.corrupt,
            "lose": self.lose,
        }
        return [name for name, is_set in set_ones.items() if is_set]

    def as_data(self) -> dict[str, Any]:
        """Return the attributes that the rule sets."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in told.items() if value != _DEFAULTS[name]}

    def __str__(self) -> str:
        """The rule in one line: ``tier=get topic=orders error=Unavailable count=3``."""
        return " ".join(
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in self.as_data().items()
        )


_DEFAULTS: Final = {each.name: each.default for each in fields(TierRule)}
_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "partition": (0, 2**31 - 1),
    "broker": (0, 2**31 - 1),
    "nth": (1, MAX_COUNT),
    "count": (1, MAX_COUNT),
    "delay_ms": (0, MAX_DELAY_MS),
    "truncate_bytes": (0, MAX_BYTES),
}


def parse_tier_rule(data: Mapping[str, object]) -> TierRule:
    """Return the rule that these names and values describe; a value of None is as if it were absent.

    Raises:
        FaultError: a name or a value is unknown, in which case the nearest one is named; or the rule does nothing, or
            what cannot be done to its call.
    """
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in _DEFAULTS:
            raise FaultError(f"a fault rule of the tier has no {name!r}{nearest(name, _DEFAULTS)}")
        if value is not None:
            values[name] = _value(name, value)
    rule = TierRule(**values)
    if rule.nth is not None and rule.count is not None:
        raise FaultError("give 'nth' or 'count', not both: 'nth' acts on one call")
    _check_action(rule)
    return rule


def _value(name: str, value: object) -> object:
    if name in _NUMBERS:
        least, most = _NUMBERS[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise FaultError(f"{name!r} must be a whole number from {least} to {most}")
        return value
    if name in ("hold", "corrupt", "lose"):
        if not isinstance(value, bool):
            raise FaultError(f"{name!r} must be true or false")
        return value
    if name == "probability":
        return probability(value)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise FaultError(f"{name!r} must be text of at most {MAX_TEXT} letters")
    if name == "tier":
        return _named("call of the tier", value, CALLS)
    return _named("error of the tier", value, ERRORS) if name == "error" else value


def _named(kind: str, name: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    """Return a name as it is spelled here."""
    for each in known:
        if each.lower() == name.replace("_", "").lower():
            return each
    raise FaultError(f"there is no {kind} {name!r}{nearest(name, known) or ', only ' + ', '.join(known)}")


def _check_action(rule: TierRule) -> None:
    """Refuse a rule that does nothing, two things of which only one can be done, or one that its call does not have."""
    actions = rule.actions
    if rule.hold and rule.delay_ms:
        raise FaultError("give only one of 'delay_ms' and 'hold'")
    if len(actions) > 1:
        raise FaultError(f"give only one of {' and '.join(map(repr, actions))}")
    if not (actions or rule.hold or rule.delay_ms):
        raise FaultError("the rule does nothing; give delay_ms, hold, error, truncate_bytes, corrupt or lose")
    for name in actions:
        calls = ONLY_OF.get(name, CALLS)
        if rule.tier not in calls:
            raise FaultError(f"{name!r} is for {' and '.join(calls)}, not for {rule.tier}")
    calls = _ERRORS_OF.get(rule.error or "", CALLS)
    if rule.tier not in calls:
        raise FaultError(f"the error {rule.error} is one of {' and '.join(calls)}, not of {rule.tier}")


class LiveTierRule(LiveFault[TierRule]):
    """A rule at work on calls of the tier's object store; see `LiveFault`."""

    __slots__ = ()

    def is_about(self, call: str, topic: str | None, partition: int) -> bool:
        """Return whether it is about a call on an object of a partition, whose topic may not be known."""
        rule = self.rule
        return (
            rule.tier == call and rule.topic in (None, topic) and rule.partition in (None, partition)
        ) and not self.is_spent
