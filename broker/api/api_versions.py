"""ApiVersions (key 18): list the APIs that this broker answers, with their versions (KIP-35, KIP-511).

Versions 0–5. The server answers a request of a higher version in version 0, with UNSUPPORTED_VERSION and the same list,
so that a newer client can fall back. The list is that of the routes: it has exactly the answered APIs.

From version 3 on the answer has the features of the cluster (KIP-584). From version 5 on a client may say which
broker of which cluster it means to ask; another one answers REBOOTSTRAP_REQUIRED (KIP-1242). One without the other is
INVALID_REQUEST.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.features import FeatureLevels, features
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import anyone
from purgatorio.broker.metadata.releases import Release
from purgatorio.broker.routing.request import Reply, RequestContext, Versions, api_versions_response
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
"""The first version in which a feature may have the minimum 0; earlier ones leave such features out (KAFKA-17011)."""
IDENTITY_VERSION = 5
NO_BROKER = -1
# KIP-511: the allowed names and versions of client software.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class BrokerIdentity(NamedTuple):
    """Which broker of which cluster this is."""

    cluster_id: str
    broker_id: int

    def is_meant(self, request: ApiVersionsRequest) -> bool:
        """Return whether the client means to ask this broker, or does not say."""
        return request.cluster_id is None or (request.cluster_id, request.node_id) == self


def handle(
    versions: Mapping[int, Versions],
    levels: FeatureLevels,
    ctx: RequestContext,
    request: ApiVersionsRequest,
    reply: Reply,
    *,
    identity: Callable[[], BrokerIdentity] | None = None,
    release: Release | None = None,
) -> None:
    """Answer with the advertised APIs and versions, and the features that the cluster uses.

    Java's client takes the features again if their epoch is higher, as after an upgrade; after a downgrade it keeps
    what it has, which every broker answers.

    Args:
        versions: the APIs that this broker answers, by key.
        identity: returns which broker this is; None: it is any that a client means to ask.
        release: the release of Kafka as which the broker answers; None: all features that there are.
    """
    is_half = (request.cluster_id is None) != (request.node_id == NO_BROKER)
    if ctx.api_version >= CLIENT_SOFTWARE_VERSION and (is_half or not _is_valid(request)):
        reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    if ctx.api_version >= IDENTITY_VERSION and identity is not None and not identity().is_meant(request):
        reply(ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
        return
    response = api_versions_response(versions)
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


def _identity(admin: AdminContext) -> BrokerIdentity:
    return BrokerIdentity(admin.store.image.cluster_id, admin.broker_id)


def _is_valid(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


API: Final = ApiHandler(
    key=ApiKey.API_VERSIONS,
    min_version=0,
    max_version=5,
    needs=anyone,
    bind=lambda services: partial(
        handle,
        services.versions,
        services.levels,
        identity=partial(_identity, services.admin),
        release=services.release,
    ),
)
