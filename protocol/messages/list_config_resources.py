"""ListConfigResources, key 74, versions 0 and 1, both flexible: list the resources that have configurations.

Version 0 lists client metrics only, under the name ListClientMetricsResources (KIP-714); 1 adds types (KIP-1142).
"""

from __future__ import annotations

from typing import Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import INT8, Api, Message, array, int8, int16, int32, string, wire_struct

CLIENT_METRICS: Final = 16
"""The resource type of client metrics, which version 0 does not name."""


@wire_struct
class ListConfigResourcesRequest(Message):
    """Asks for the resources of these types; none means all types."""

    resource_types: list[int] = array(INT8, since=1)


@wire_struct
class ConfigResource:
    """One resource."""

    resource_name: str = string()
    resource_type: int = int8(CLIENT_METRICS, since=1)


@wire_struct
class ListConfigResourcesResponse(Message):
    """Lists the resources."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)


API = Api(
    ApiKey.LIST_CONFIG_RESOURCES,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    versions=range(2),
    flexible_from=0,
)
