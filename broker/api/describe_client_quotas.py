"""DescribeClientQuotas (key 48): list the quotas of users, client ids and IP addresses (KIP-546). Versions 0–1."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.layers.quotas.naming import is_entity_type, mixes_ip, parts_of
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.clients import ClientQuotas, QuotaEntity
from purgatorio.broker.metadata.controller import DecisionRefused
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_client_quotas import (
    ClientQuotasEntityPart,
    ClientQuotasEntry,
    ClientQuotasValue,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeClientQuotasRequest, reply: Reply) -> None:
    """Answer from this broker's image."""
    components = [Component(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        matches = matcher(components, strict=request.strict)
    except DecisionRefused as refusal:
        response = error_response(request, refusal.error)
        response.error_message = refusal.message
        reply(response)
        return
    admin.listings.begin(_list(admin.store.image.client_quotas, matches, reply), ctx.session)


def _list(quotas: ClientQuotas, matches: Callable[[QuotaEntity], bool], reply: Reply) -> Steps:
    """Look at all quotas of one image, and reply after the last one."""
    entries = []
    for entity, values in quotas.items():
        if matches(entity):
            entries.append(
                ClientQuotasEntry(
                    entity=[
                        ClientQuotasEntityPart(entity_type=kind, entity_name=name) for kind, name in parts_of(entity)
                    ],
                    values=[ClientQuotasValue(key=key, value=value) for key, value in values.items()],
                )
            )
        yield 4
    reply(DescribeClientQuotasResponse(error_message=None, entries=entries))


def error_response(request: DescribeClientQuotasRequest, error_code: ErrorCode) -> DescribeClientQuotasResponse:
    """Return the response with `error_code`."""
    return DescribeClientQuotasResponse(error_code=error_code, error_message=None, entries=None)


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    min_version=0,
    max_version=1,
    needs=cluster(AclOperation.DESCRIBE_CONFIGS),
    bind=lambda services: partial(handle, services.admin),
    error_response=error_response,
)


class MatchType(enum.IntEnum):
    """How a component matches the name of an entity."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2
    """Any name that is given, and the default."""


class Component(NamedTuple):
    """A filter for one part of an entity."""

    entity_type: str
    match_type: int
    match: str | None


def matcher(components: Sequence[Component], *, strict: bool) -> Callable[[QuotaEntity], bool]:
    """Return whether an entity has all components; strict: and no part of another type.

    Raises:
        DecisionRefused: the components make no sense.
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
            raise DecisionRefused(ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas of '{entity_type}'.")
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


def _invalid(message: str) -> DecisionRefused:
    return DecisionRefused(ErrorCode.INVALID_REQUEST, message)
