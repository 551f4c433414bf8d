"""UpdateFeatures, key 57, versions 0–2, all flexible: change the levels of the cluster's features (KIP-584).

Version 1 distinguishes an upgrade, a safe and an unsafe downgrade, and adds `validate_only`; version 2 answers for all
features at once, since the change is made as a whole or not at all (KIP-1022).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class FeatureUpdateKey:
    """A feature, and the level that it shall have; 0 and less turns it off."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(until=0)
    upgrade_type: int = int8(1, since=1)


@wire_struct
class UpdateFeaturesRequest(Message):
    """Asks for other levels of features."""

    timeout_ms: int = int32(60_000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1)


@wire_struct
class UpdatableFeatureResult:
    """Reports the result for one feature."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = nullable_string()


@wire_struct
class UpdateFeaturesResponse(Message):
    """Reports the result of the request, and for each feature if it did not fail as a whole."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string()
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, until=1)


API = Api(
    ApiKey.UPDATE_FEATURES,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    versions=range(3),
    flexible_from=0,
)
