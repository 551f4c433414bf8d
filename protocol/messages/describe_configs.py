"""DescribeConfigs, key 32, versions 1 to 4 (KIP-133).

Version 1 adds sources and synonyms (KIP-226); 3 adds types and documentation (KIP-569); 4 is the first flexible one.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    STRING,
    Api,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class DescribeConfigsResource:
    """A topic (type 2) or broker (type 4), and the configs to describe; null means all."""

    resource_type: int = int8(entity=Entity.CONFIG_RESOURCE_TYPE)
    resource_name: str = string(entity=Entity.CONFIG_RESOURCE)
    configuration_keys: list[str] | None = nullable_array(STRING)


@wire_struct
class DescribeConfigsRequest(Message):
    """Asks for the configs of resources."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(since=1)
    include_documentation: bool = boolean(since=3)


@wire_struct
class DescribeConfigsSynonym:
    """One source of a config, with the value there (KIP-226)."""

    name: str = string(since=1)
    value: str | None = nullable_string(since=1)
    source: int = int8(since=1)


@wire_struct
class DescribeConfigsResourceResult:
    """One config."""

    name: str = string()
    value: str | None = nullable_string()
    read_only: bool = boolean()
    config_source: int = int8(-1, since=1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, since=1)
    config_type: int = int8(since=3)
    documentation: str | None = nullable_string(since=3)


@wire_struct
class DescribeConfigsResult:
    """The configs of one resource."""

    error_code: int = int16()
    error_message: str | None = nullable_string()
    resource_type: int = int8(entity=Entity.CONFIG_RESOURCE_TYPE)
    resource_name: str = string(entity=Entity.CONFIG_RESOURCE)
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@wire_struct
class DescribeConfigsResponse(Message):
    """Gives the configs of each resource."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)


API = Api(
    ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse, versions=range(1, 5), flexible_from=4
)
