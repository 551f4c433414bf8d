"""AlterUserScramCredentials (key 51): set and delete users' SCRAM credentials (KIP-554). Version 0.

Any broker answers. Each user has a result of its own; one that is named twice is refused, also with two mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.api.context import AdminContext, submit
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.security.scram_users import ScramEdit, ScramResult, alter_scram_credentials
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from purgatorio.protocol.parts import failed

_WATCHED: Final = "scram credentials"
"""The watch key of these requests."""


def handle(admin: AdminContext, ctx: RequestContext, request: AlterUserScramCredentialsRequest, reply: Reply) -> None:
    """Change the credentials."""
    submit(admin, ctx, _AlterScramCredentials(request), reply)


class _AlterScramCredentials(ClusterChange[ScramResult]):
    def __init__(self, request: AlterUserScramCredentialsRequest) -> None:
        super().__init__((_WATCHED,))
        self._request = request
        self._edits = _edits(request)

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[ScramResult]]:
        return alter_scram_credentials(image, self._edits)

    def respond(self, results: Sequence[ScramResult]) -> AlterUserScramCredentialsResponse:
        return _response(results)

    def refuse(self, error_code: ErrorCode) -> Any:
        return failed(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, self._request, error_code)


def _edits(request: AlterUserScramCredentialsRequest) -> list[ScramEdit]:
    deletions = [ScramEdit(each.name, each.mechanism) for each in request.deletions]
    return deletions + [
        ScramEdit(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        for each in request.upsertions
    ]


def _response(results: Iterable[ScramResult]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=result.name, error_code=result.error, error_message=result.message)
            for result in results
        ]
    )


API: Final = ApiHandler(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    min_version=0,
    max_version=0,
    needs=cluster(AclOperation.ALTER),
    bind=lambda services: partial(handle, services.admin),
)
