"""What a quota says to one request: for how long its connection is muted, and why."""

from __future__ import annotations

import enum
from typing import NamedTuple

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


def larger(one: Throttle | None, other: Throttle | None) -> Throttle | None:
    """Return the throttle that takes longer: two are not added. `other` wins a tie."""
    if one is None or other is None:
        return one or other
    return one if one.delay_ms > other.delay_ms else other
