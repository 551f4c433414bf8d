"""DescribeClientQuotas (key 48): list the quotas of users, client ids and IP addresses (KIP-546). Versions 0–1."""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.quotas.filtering import Component, matching
from purgatorio.broker.layers.quotas.naming import parts_of
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


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeClientQuotasRequest, reply: Reply) -> None:
    """Answer from this broker's image."""
    components = [Component(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        found = matching(admin.store.image.client_quotas, components, strict=request.strict)
    except Refused as refusal:
        response = error_response(request, refusal.error)
        response.error_message = refusal.message
        reply(response)
        return
    reply(
        DescribeClientQuotasResponse(
            error_message=None,
            entries=[
                ClientQuotasEntry(
                    entity=[
                        ClientQuotasEntityPart(entity_type=kind, entity_name=name) for kind, name in parts_of(each)
                    ],
                    values=[ClientQuotasValue(key=key, value=value) for key, value in values.items()],
                )
                for each, values in found.items()
            ],
        )
    )


def error_response(request: DescribeClientQuotasRequest, error_code: ErrorCode) -> DescribeClientQuotasResponse:
    """Return the response with `error_code`."""
    return DescribeClientQuotasResponse(error_code=error_code, error_message=None, entries=None)


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    min_version=0,
    max_version=1,
    bind=lambda services: partial(handle, services.admin),
    error_response=error_response,
)
