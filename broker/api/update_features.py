"""UpdateFeatures (key 57): change the levels of the cluster's features (KIP-584, KIP-1022). Versions 0–2.

A level that is in use already is accepted. Any other is refused with INVALID_UPDATE_VERSION, as Kafka refuses one that
it does not support: levels are set when brokers start (`purgatorio.broker.api.features`).
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Final

from purgatorio.broker.api.features import Feature, FeatureLevels, features
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.releases import Release
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from purgatorio.protocol.parts import failed


class UpgradeType(enum.IntEnum):
    """How a feature's level may change; version 0 of the API knows the first two."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def handle(
    levels: FeatureLevels,
    ctx: RequestContext,
    request: UpdateFeaturesRequest,
    reply: Reply,
    *,
    release: Release | None = None,
) -> None:
    """Answer whether all features have the levels that the request asks for; one that has not refuses the request.

    Args:
        release: the release of Kafka as which the broker answers; None: it knows all features that there are.
    """
    known = {feature.name: feature for feature in features(levels, release)}
    for update in request.feature_updates:
        problem = _problem(known.get(update.feature), update, _upgrade_type(ctx.api_version, update))
        if problem:
            response: UpdateFeaturesResponse = failed(ApiKey.UPDATE_FEATURES, request, ErrorCode.INVALID_UPDATE_VERSION)
            response.error_message = (
                "No feature was changed, because of this one: "
                f"{update.feature} cannot get level {update.max_version_level}: {problem}"
            )
            reply(response)
            return
    names = dict.fromkeys(update.feature for update in request.feature_updates)
    results = [UpdatableFeatureResult(feature=name, error_message=None) for name in names]
    reply(UpdateFeaturesResponse(error_message=None, results=results))


def _upgrade_type(version: int, update: FeatureUpdateKey) -> int:
    if version > 0:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


def _problem(feature: Feature | None, update: FeatureUpdateKey, upgrade_type: int) -> str:
    """Return why a feature cannot get a level; "" if it has it. The order is Kafka's."""
    level = update.max_version_level
    if upgrade_type not in tuple(UpgradeType):
        return f"there is no upgrade type {upgrade_type}."
    if feature is None:
        return "there is no such feature."
    if not feature.lowest <= level <= feature.highest:
        return f"brokers support levels {feature.lowest} to {feature.highest}."
    if level < feature.level and upgrade_type == UpgradeType.UPGRADE:
        return f"it has level {feature.level}, and the request does not allow a downgrade."
    if level != feature.level:
        return f"it has level {feature.level}, which is set when brokers start and cannot be changed later."
    return ""


API: Final = ApiHandler(
    key=ApiKey.UPDATE_FEATURES,
    min_version=0,
    max_version=2,
    needs=cluster(AclOperation.ALTER),
    bind=lambda services: partial(handle, services.levels, release=services.release),
)
