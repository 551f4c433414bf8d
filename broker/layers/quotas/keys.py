"""The quotas that there are: their names in Kafka, for which entities, and in which units."""

from __future__ import annotations

import enum
import math
from typing import Final

from purgatorio.late import dataclass


class QuotaKey(enum.StrEnum):
    """A quota by its name in Kafka."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    """Bytes of Produce requests per second (KIP-13)."""
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    """Bytes of Fetch answers to consumers per second (KIP-13)."""
    REQUEST_PERCENTAGE = "request_percentage"
    """The share of the event loop's time in percent; Kafka: of one thread's (KIP-124)."""
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    """Partitions that are created, added or deleted per second (KIP-599)."""
    CONNECTION_CREATION_RATE = "connection_creation_rate"
    """Connections that are accepted from an IP address per second (KIP-612)."""


@dataclass(frozen=True, slots=True)
class _Constraint:
    """The allowed values of a quota; they are always above 0 (KAFKA-14943).

    Attributes:
        of_ip: whether the quota is for IP addresses rather than for users and client ids.
        most: the greatest value of a quota that has no fraction; None: any finite number.
    """

    of_ip: bool = False
    most: int | None = None


_CONSTRAINTS: Final = {
    QuotaKey.PRODUCER_BYTE_RATE: _Constraint(most=2**63 - 1),
    QuotaKey.CONSUMER_BYTE_RATE: _Constraint(most=2**63 - 1),
    QuotaKey.REQUEST_PERCENTAGE: _Constraint(),
    QuotaKey.CONTROLLER_MUTATION_RATE: _Constraint(),
    QuotaKey.CONNECTION_CREATION_RATE: _Constraint(of_ip=True, most=2**31 - 1),
}


def quota_keys(*, of_ip: bool) -> list[QuotaKey]:
    """Return the quotas that IP addresses have, or those of users and client ids."""
    return [key for key, constraint in _CONSTRAINTS.items() if constraint.of_ip is of_ip]


def value_problem(name: str, value: float, *, of_ip: bool) -> str:
    """Return a sentence why a quota cannot have this value, or cannot be of this entity; "" if it can.

    Kafka accepts NaN and infinities, which no rate is ever above; they are refused here.
    """
    known = quota_keys(of_ip=of_ip)
    if name not in known:
        whose = "IP addresses" if of_ip else "users and client ids"
        return f"There is no quota '{name}' for {whose}, only {', '.join(known)}."
    most = _CONSTRAINTS[QuotaKey(name)].most
    if not math.isfinite(value) or value <= 0:
        return f"Quota {name} must be a number above 0, not {value}."
    if most is not None and value != int(value):
        return f"Quota {name} must be a whole number, not {value}."
    if most is not None and value > float(most):  # the greatest long has no float of its own: it is 2**63, as in Kafka
        return f"Quota {name} must be at most {most}, not {value}."
    return ""
