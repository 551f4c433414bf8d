"""ApiVersions (key 18): list the APIs that this broker answers, with their versions (KIP-35, KIP-511).

Versions 0–4. The server answers a request of a higher version in version 0, with UNSUPPORTED_VERSION and the same list,
so that a newer client can fall back. The list is derived from the routes: it has exactly the answered APIs.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.request import Reply, RequestContext, Routes, api_versions_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

CLIENT_SOFTWARE_VERSION = 3
# KIP-511: the allowed names and versions of client software.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(routes: Routes, ctx: RequestContext, request: ApiVersionsRequest, reply: Reply) -> None:
    """Answer with the advertised APIs and versions."""
    if ctx.api_version >= CLIENT_SOFTWARE_VERSION and not _is_valid(request):
        reply(error_response(request, ErrorCode.INVALID_REQUEST))
        return
    reply(api_versions_response(routes))


def _is_valid(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


def error_response(request: ApiVersionsRequest, error_code: ErrorCode) -> ApiVersionsResponse:
    """Return the response to a request that failed with `error_code`."""
    return ApiVersionsResponse(error_code=error_code)


API: Final = ApiHandler(
    key=ApiKey.API_VERSIONS,
    min_version=0,
    max_version=4,
    bind=lambda services: partial(handle, services.routes),
    error_response=error_response,
)
