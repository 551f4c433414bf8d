"""DescribeClientQuotas (key 48): list the quotas of users, client ids and IP addresses (KIP-546). Versions 0–1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.layers.quotas.filtering import Component, matcher
from purgatorio.broker.layers.quotas.naming import parts_of
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.clients import ClientQuotas, QuotaEntity
from purgatorio.broker.metadata.controller import Refused
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_client_quotas import (
    ClientQuotasEntityPart,
    ClientQuotasEntry,
    ClientQuotasValue,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

ENTITIES_PER_STEP: Final = 500
"""Entities that one step looks at: some milliseconds."""


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeClientQuotasRequest, reply: Reply) -> None:
    """Answer from this broker's image."""
    components = [Component(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        matches = matcher(components, strict=request.strict)
    except Refused as refusal:
        response = error_response(request, refusal.error)
        response.error_message = refusal.message
        reply(response)
        return
    admin.listings.begin(_list(admin.store.image.client_quotas, matches, reply), ctx.session)


def _list(quotas: ClientQuotas, matches: Callable[[QuotaEntity], bool], reply: Reply) -> Iterator[None]:
    """Look at all quotas of one image, `ENTITIES_PER_STEP` in each step, and reply with the last one."""
    entries = []
    for number, (entity, values) in enumerate(quotas.items(), 1):
        if matches(entity):
            entries.append(
                ClientQuotasEntry(
                    entity=[
                        ClientQuotasEntityPart(entity_type=kind, entity_name=name) for kind, name in parts_of(entity)
                    ],
                    values=[ClientQuotasValue(key=key, value=value) for key, value in values.items()],
                )
            )
        if number % ENTITIES_PER_STEP == 0:
            yield
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
