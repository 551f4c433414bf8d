"""What a quota says to one request: for how long its connection is muted, and why in words."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, NamedTuple

from purgatorio.broker.layers.quotas.entities import Limit


class QuotaKind(enum.StrEnum):
    """What quotas count, by the names of Kafka's MBeans."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class Throttle(NamedTuple):
    """A client is over a limit.

    Attributes:
        delay_ms: for how long its connection is muted.
        used: the rate, in the limit's unit; of controller mutations the tokens that are overdrawn.
    """

    kind: QuotaKind
    delay_ms: int
    limit: Limit
    used: float

    def __str__(self) -> str:
        shown, limit = _SHOWN[self.kind](self.used), _SHOWN[self.kind](self.limit.value)
        over = _WORDS.get(self.kind, "")
        muted = f"{self.limit.client} is muted for {_shown_time(self.delay_ms)}"
        return f"{muted}: {over}{shown} of {limit}, rule: {self.limit.rule}"


def larger(one: Throttle | None, other: Throttle | None) -> Throttle | None:
    """Return the throttle that takes longer: two are not added. `other` wins a tie."""
    if one is None or other is None:
        return one or other
    return one if one.delay_ms > other.delay_ms else other


def _shown_time(delay_ms: int) -> str:
    return f"{delay_ms} ms" if delay_ms < 100 else f"{delay_ms / 1_000:.1f} s"


def shown_bytes(rate: float) -> str:
    """Return bytes per second in a unit that suits them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g} {unit}/s"
    return f"{rate:.3g} B/s"


_SHOWN: Final[dict[QuotaKind, Callable[[float], str]]] = {
    QuotaKind.PRODUCE: shown_bytes,
    QuotaKind.FETCH: shown_bytes,
    QuotaKind.REQUEST: lambda percent: f"{percent:.3g} %",
    QuotaKind.CONTROLLER_MUTATION: lambda partitions: f"{partitions:.3g} partitions/s",
}
_WORDS: Final = {QuotaKind.REQUEST: "request time of ", QuotaKind.CONTROLLER_MUTATION: "overdrawn by "}
