"""DescribeUserScramCredentials (key 50): list users with SCRAM credentials, without these (KIP-554). Version 0."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    admin: AdminContext, ctx: RequestContext, request: DescribeUserScramCredentialsRequest, reply: Reply
) -> None:
    """Answer from this broker's image: mechanisms and iterations, no keys."""
    found: dict[str, list[CredentialInfo]] = {}
    for (name, mechanism), credential in sorted(admin.store.image.scram_credentials.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        found.setdefault(name, []).append(info)
    times = Counter(user.name for user in request.users or ())
    reply(
        DescribeUserScramCredentialsResponse(
            results=[_result(name, found.get(name), times[name]) for name in (times or found)]
        )
    )


def _result(name: str, infos: list[CredentialInfo] | None, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        error, message = ErrorCode.DUPLICATE_RESOURCE, "The request names this user more than once."
    elif infos is None:
        error, message = ErrorCode.RESOURCE_NOT_FOUND, "The user has no SCRAM credentials."
    else:
        return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
    return DescribeUserScramCredentialsResult(user=name, error_code=error, error_message=message)


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    min_version=0,
    max_version=0,
    needs=cluster(AclOperation.DESCRIBE),
    bind=lambda services: partial(handle, services.admin),
)
