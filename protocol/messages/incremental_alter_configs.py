"""IncrementalAlterConfigs, key 44, versions 0 and 1 (KIP-339): change single configs of a resource.

Version 1 is the first flexible one.
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
    """One config and its operation: 0 set, 1 delete, 2 append to a list, 3 subtract from a list."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = nullable_string()


@wire_struct
class AlterConfigsResource:
    """A topic (type 2) or broker (type 4), and the changes to its configs."""

    resource_type: int = int8(entity=Entity.CONFIG_RESOURCE_TYPE)
    resource_name: str = string(entity=Entity.CONFIG_RESOURCE)
    configs: list[AlterableConfig] = array(AlterableConfig)


@wire_struct
class IncrementalAlterConfigsRequest(Message):
    """Asks to change configs; `validate_only` changes nothing."""

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
class IncrementalAlterConfigsResponse(Message):
    """Reports for each resource whether its configs were changed."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


API = Api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    versions=range(2),
    flexible_from=1,
)
