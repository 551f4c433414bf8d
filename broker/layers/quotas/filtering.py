"""Which entities DescribeClientQuotas asks for (KIP-546)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from purgatorio.broker.layers.quotas.naming import is_entity_type, mixes_ip, parts_of
from purgatorio.broker.metadata.clients import QuotaEntity
from purgatorio.broker.metadata.controller import Refused
from purgatorio.protocol.errors import ErrorCode


class MatchType(enum.IntEnum):
    """What a component asks of a name."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2
    """Any name that is given, and the default."""


class Component(NamedTuple):
    """What one part of an entity must be."""

    entity_type: str
    match_type: int
    match: str | None


def matcher(components: Sequence[Component], *, strict: bool) -> Callable[[QuotaEntity], bool]:
    """Return whether an entity has all components; strict: and no part of another type.

    Raises:
        Refused: the components make no sense.
    """
    asked = _checked(components)
    return lambda entity: _matches(entity, asked, strict)


def _matches(entity: QuotaEntity, asked: Mapping[str, Component], strict: bool) -> bool:
    parts = dict(parts_of(entity))
    if strict and parts.keys() != asked.keys():
        return False
    return all(
        each in parts and (component.match_type == MatchType.ANY or parts[each] == component.match)
        for each, component in asked.items()
    )


def _checked(components: Sequence[Component]) -> dict[str, Component]:
    asked: dict[str, Component] = {}
    for component in components:
        entity_type, match_type, match = component
        if not entity_type:
            raise _invalid("The type of an entity is empty.")
        if not is_entity_type(entity_type):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas of '{entity_type}'.")
        if entity_type in asked:
            raise _invalid(f"The filter has two components of type {entity_type}.")
        if match_type not in list(MatchType):
            raise _invalid(f"There is no match type {match_type}.")
        if (match is not None) != (match_type == MatchType.EXACT):
            raise _invalid(f"The match of {entity_type} must be given with match type 0, and null with 1 and 2.")
        asked[entity_type] = component
    if mixes_ip(asked):
        raise _invalid("An IP address goes with no user and no client id.")
    return asked


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
