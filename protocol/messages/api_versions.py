"""ApiVersions, key 18, versions 0 to 5: the APIs and versions that the broker serves, and its features.

Versions 0 to 2 have an empty request. Version 1 adds throttle_time_ms, after the keys. Version 3 is the first flexible
one, and adds the client's name and version and the broker's features. Version 4 lets a feature's minimum be 0
(KIP-1022). Version 5 adds the cluster and the broker that the client means to ask (KIP-1242).

A broker that does not know the version answers UNSUPPORTED_VERSION in version 0, with the keys, so that the client can
choose another (KIP-511). For the same reason the response header is always version 0.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class ApiVersionsRequest(Message):
    """Asks for the APIs that the broker serves.

    The cluster's id is None, and the broker's -1, if the client does not say whom it means to ask.
    """

    client_software_name: str = string(since=3)
    client_software_version: str = string(since=3)
    cluster_id: str | None = nullable_string(None, since=5, null_since=5)
    node_id: int = int32(-1, since=5, entity=Entity.BROKER_ID)


@wire_struct
class ApiVersion:
    """One API that the broker serves."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@wire_struct
class SupportedFeatureKey:
    """One feature that the broker supports (KIP-584)."""

    name: str = string(since=3)
    min_version: int = int16(since=3)
    max_version: int = int16(since=3)


@wire_struct
class FinalizedFeatureKey:
    """One feature that the cluster has enabled (KIP-584)."""

    name: str = string(since=3)
    max_version_level: int = int16(since=3)
    min_version_level: int = int16(since=3)


@wire_struct
class ApiVersionsResponse(Message):
    """Lists the APIs that the broker serves; `finalized_features_epoch` is -1 while no features are known."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, since=3, tag=0)
    finalized_features_epoch: int = int64(-1, since=3, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, since=3, tag=2)
    zk_migration_ready: bool = boolean(since=3, tag=3)


API = Api(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, versions=range(6), flexible_from=3)
