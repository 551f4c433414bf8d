"""Metadata, key 3, versions 0 to 13: brokers, topics, and the leaders and replicas of partitions.

* Version 0 asks for all topics with an empty array; from version 1 on null asks for all, and empty for none.
* 1 adds the controller, racks and is_internal; 2 the cluster id; 3 throttle_time_ms; 5 offline replicas.
* 4 adds allow_auto_topic_creation; older requests always allow it.
* 7 adds leader epochs (KIP-320); 8 authorized operations (KIP-430); 9 is the first flexible version.
* 10 adds topic ids (KIP-516); 11 drops the cluster's authorized operations (KIP-700); 12 lets clients ask by topic id,
  and the response's topic name be null; 13 adds a top-level error code (KIP-1102).
"""

from __future__ import annotations

from typing import Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT32,
    Api,
    Message,
    array,
    boolean,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    uuid,
    wire_struct,
)

NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
"""The value of authorized operations that the client did not request (KIP-430)."""


@wire_struct
class MetadataRequestTopic:
    """One requested topic, by name or, from version 12 on, by id."""

    topic_id: bytes = uuid(since=10, entity=Entity.TOPIC_ID)
    name: str | None = nullable_string(null_since=10, entity=Entity.TOPIC_NAME)


@wire_struct
class MetadataRequest(Message):
    """Asks for brokers and topics; from version 1 on, `topics` None means all topics."""

    topics: list[MetadataRequestTopic] | None = nullable_array(MetadataRequestTopic, null_since=1)
    allow_auto_topic_creation: bool = boolean(True, since=4)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


@wire_struct
class MetadataResponseBroker:
    """One broker and its endpoint for clients."""

    node_id: int = int32(entity=Entity.BROKER_ID)
    host: str = string()
    port: int = int32()
    rack: str | None = nullable_string(None, since=1, null_since=1)


@wire_struct
class MetadataResponsePartition:
    """One partition; the leader's id is -1 while there is none."""

    error_code: int = int16()
    partition_index: int = int32(entity=Entity.PARTITION)
    leader_id: int = int32(entity=Entity.BROKER_ID)
    leader_epoch: int = int32(-1, since=7)
    replica_nodes: list[int] = array(INT32, entity=Entity.BROKER_ID)
    isr_nodes: list[int] = array(INT32, entity=Entity.BROKER_ID)
    offline_replicas: list[int] = array(INT32, since=5, entity=Entity.BROKER_ID)


@wire_struct
class MetadataResponseTopic:
    """One topic; its name is None only if the client asked for an unknown topic id."""

    error_code: int = int16()
    name: str | None = nullable_string(null_since=12, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=10, entity=Entity.TOPIC_ID)
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(NO_AUTHORIZED_OPERATIONS, since=8)


@wire_struct
class MetadataResponse(Message):
    """Gives the brokers of the cluster, and the requested topics."""

    throttle_time_ms: int = int32(since=3)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = nullable_string(None, since=2, null_since=2)
    controller_id: int = int32(-1, since=1, entity=Entity.BROKER_ID)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(NO_AUTHORIZED_OPERATIONS, since=8, until=10)
    error_code: int = int16(since=13)


API = Api(ApiKey.METADATA, MetadataRequest, MetadataResponse, versions=range(14), flexible_from=9)
