"""Names in requests about quotas: those of the quotas that there are, with their units, and those of entities.

An entity has parts with a type and a name, where no name stands for the default.
"""

from __future__ import annotations

import enum
import ipaddress
import math
from collections.abc import Iterable
from typing import Final

from purgatorio.broker.metadata.clients import DEFAULT_NAME, QuotaEntity
from purgatorio.late import dataclass

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_FIELDS: Final = {USER: "user", CLIENT_ID: "client_id", IP: "ip"}
EntityPart = tuple[str, str | None]
"""A type, and a name or None for the default."""


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


class BadEntity(ValueError):
    """Raised for parts that name no entity; the text says why."""


def is_entity_type(entity_type: str) -> bool:
    """Return whether quotas know entities of this type."""
    return entity_type in _FIELDS


def mixes_ip(entity_types: Iterable[str]) -> bool:
    """Return whether an address stands beside a user or a client id."""
    types = set(entity_types)
    return IP in types and len(types) > 1


def entity_of(parts: Iterable[EntityPart]) -> QuotaEntity:
    """Return the entity that the parts name.

    Kafka resolves the name of a host; here only an address names an IP entity.

    Raises:
        BadEntity: there is no part, a type is unknown or given twice, a name is empty, or an address is none.
    """
    fields: dict[str, str] = {}
    for entity_type, name in parts:
        field = _FIELDS.get(entity_type)
        if field is None:
            raise BadEntity(f"There are no quotas of '{entity_type}', only of {', '.join(_FIELDS)}.")
        if field in fields:
            raise BadEntity(f"The entity has two parts of type {entity_type}.")
        if name == "":
            raise BadEntity(f"The name of a {entity_type} is empty; the default has null for a name.")
        fields[field] = DEFAULT_NAME if name is None else _address(name) if entity_type == IP else name
    if not fields:
        raise BadEntity("The entity has no parts.")
    if len(fields) > 1 and "ip" in fields:
        raise BadEntity("An IP address goes with no user and no client id.")
    return QuotaEntity(**fields)


def parts_of(entity: QuotaEntity) -> list[EntityPart]:
    """Return the parts that name an entity."""
    names = {each: getattr(entity, field) for each, field in _FIELDS.items()}
    return [(each, None if name == DEFAULT_NAME else name) for each, name in names.items() if name is not None]


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise BadEntity(f"'{text}' is no IP address.") from None
