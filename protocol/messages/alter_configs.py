"""AlterConfigs, key 33, versions 0 to 2 (KIP-133): set all configs of a resource; configs not named are reset.

Version 2 is the first flexible one. IncrementalAlterConfigs (KIP-339) has replaced it.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
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
class AlterableConfig:
    """One config and its value."""

    name: str = string()
    value: str | None = nullable_string()


@wire_struct
class AlterConfigsResource:
    """A topic (type 2) or broker (type 4), and all its configs."""

    resource_type: int = int8(entity=Entity.CONFIG_RESOURCE_TYPE)
    resource_name: str = string(entity=Entity.CONFIG_RESOURCE)
    configs: list[AlterableConfig] = array(AlterableConfig)


@wire_struct
class AlterConfigsRequest(Message):
    """Asks to set configs; `validate_only` sets nothing."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@wire_struct
class AlterConfigsResourceResponse:
    """The result for one resource."""

    error_code: int = int16()
    error_message: str | None = nullable_string()
    resource_type: int = int8(entity=Entity.CONFIG_RESOURCE_TYPE)
    resource_name: str = string(entity=Entity.CONFIG_RESOURCE)


@wire_struct
class AlterConfigsResponse(Message):
    """Reports for each resource whether its configs were changed."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


API = Api(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse, versions=range(3), flexible_from=2)
