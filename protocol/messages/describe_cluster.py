"""DescribeCluster, key 60, versions 0 to 2, all flexible (KIP-700).

Version 1 can ask for controllers instead of brokers (KIP-919); 2 can ask for fenced brokers, too (KIP-1073).
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
class DescribeClusterRequest(Message):
    """Asks for the brokers (endpoint type 1) or controllers (2)."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(1, since=1)
    include_fenced_brokers: bool = boolean(since=2)


@wire_struct
class DescribeClusterBroker:
    """One broker and its endpoint."""

    broker_id: int = int32(entity=Entity.BROKER_ID)
    host: str = string()
    port: int = int32()
    rack: str | None = nullable_string(None)
    is_fenced: bool = boolean(since=2)


@wire_struct
class DescribeClusterResponse(Message):
    """Gives the cluster's id, controller and brokers; authorized operations are -2^31 unless requested."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    endpoint_type: int = int8(1, since=1)
    cluster_id: str = string()
    controller_id: int = int32(-1, entity=Entity.BROKER_ID)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(-(2**31))


API = Api(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse, versions=range(3), flexible_from=0)
