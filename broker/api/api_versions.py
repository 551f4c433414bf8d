"""ApiVersions (key 18): list the APIs that this broker answers, with their versions (KIP-35, KIP-511).

Versions 0–4. The server answers a request of a higher version in version 0, with UNSUPPORTED_VERSION and the same list,
so that a newer client can fall back. The list is derived from the routes: it has exactly the answered APIs.

From version 3 on the answer tells the features of the cluster (KIP-584).
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from purgatorio.broker.api.features import FeatureLevels, features
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.api.releases import Release
from purgatorio.broker.layers.access.guards.whole import anyone
from purgatorio.broker.routing.request import Reply, RequestContext, Routes, api_versions_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

CLIENT_SOFTWARE_VERSION = 3
ZERO_MINIMUM_VERSION = 4
"""The first version in which a feature may have the minimum 0; others are not told of such features (KAFKA-17011)."""
# KIP-511: the allowed names and versions of client software.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    routes: Routes,
    levels: FeatureLevels,
    ctx: RequestContext,
    request: ApiVersionsRequest,
    reply: Reply,
    *,
    release: Release | None = None,
) -> None:
    """Answer with the advertised APIs and versions, and the features that the cluster uses.

    Java's client takes the features again if their epoch is higher, as after an upgrade; after a downgrade it keeps
    what it has, which every broker answers.

    Args:
        release: the release of Kafka as which the broker answers; None: all features that there are.
    """
    if ctx.api_version >= CLIENT_SOFTWARE_VERSION and not _is_valid(request):
        reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    response = api_versions_response(routes)
    known = features(levels, release)
    if ctx.api_version >= CLIENT_SOFTWARE_VERSION:
        response.finalized_features_epoch = levels.epoch
        response.finalized_features = [
            FinalizedFeatureKey(name=each.name, min_version_level=each.level, max_version_level=each.level)
            for each in known
            if each.level
        ]
    if ctx.api_version >= ZERO_MINIMUM_VERSION:
        response.supported_features = [
            SupportedFeatureKey(name=each.name, min_version=each.lowest, max_version=each.highest) for each in known
        ]
    reply(response)


def _is_valid(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


API: Final = ApiHandler(
    key=ApiKey.API_VERSIONS,
    min_version=0,
    max_version=4,
    needs=anyone,
    bind=lambda services: partial(handle, services.routes, services.levels, release=services.release),
)
