"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and IP addresses (KIP-546). Versions 0–1.

Any broker answers, as the Java client asks any. Each entity has a result of its own; one that is named twice is refused
both times, where Kafka applies the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext, submit
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.layers.quotas.altering import EntityEdit, EntityResult, QuotaEdit, alter_client_quotas
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResult,
    AlteredEntityPart,
)

_WATCHED: Final = "client quotas"
"""The watch key of these requests."""


def handle(admin: AdminContext, ctx: RequestContext, request: AlterClientQuotasRequest, reply: Reply) -> None:
    """Change the quotas; with validate_only, only check the change."""
    submit(admin, ctx, _AlterClientQuotas(request), reply)


class _AlterClientQuotas(ClusterChange[EntityResult]):
    def __init__(self, request: AlterClientQuotasRequest) -> None:
        super().__init__((_WATCHED,))
        self._request = request
        self._edits = _edits(request)

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[EntityResult]]:
        return alter_client_quotas(image, self._edits, validate_only=self._request.validate_only)

    def respond(self, results: Sequence[EntityResult]) -> AlterClientQuotasResponse:
        return _response(results)

    def refuse(self, error_code: ErrorCode) -> AlterClientQuotasResponse:
        return error_response(self._request, error_code)


def _edits(request: AlterClientQuotasRequest) -> list[EntityEdit]:
    return [
        EntityEdit(
            [(part.entity_type, part.entity_name) for part in entry.entity],
            [QuotaEdit(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]


def _response(results: Iterable[EntityResult]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResult(
                error_code=result.error,
                error_message=result.message,
                entity=[AlteredEntityPart(entity_type=kind, entity_name=name) for kind, name in result.parts],
            )
            for result in results
        ]
    )


def error_response(request: AlterClientQuotasRequest, error_code: ErrorCode) -> AlterClientQuotasResponse:
    """Return the response with `error_code` for every entity."""
    return _response(EntityResult(edit.parts, error_code) for edit in _edits(request))


API: Final = ApiHandler(
    key=ApiKey.ALTER_CLIENT_QUOTAS,
    min_version=0,
    max_version=1,
    needs=cluster(AclOperation.ALTER_CONFIGS),
    bind=lambda services: partial(handle, services.admin),
    error_response=error_response,
)
