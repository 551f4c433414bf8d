"""Entities as requests name them: parts with a type and a name, where no name stands for the default."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from purgatorio.broker.metadata.clients import DEFAULT_NAME, QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_FIELDS: Final = {USER: "user", CLIENT_ID: "client_id", IP: "ip"}

EntityPart = tuple[str, str | None]
"""A type, and a name or None for the default."""


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
