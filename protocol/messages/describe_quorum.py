"""DescribeQuorum, key 55, versions 0–2, all flexible: the controllers that vote on the metadata (KIP-595, KIP-836).

Version 1 adds times, version 2 messages, the directories of replicas and the addresses of voters (KIP-853).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uint16,
    uuid,
    wire_struct,
)


@wire_struct
class DescribeQuorumRequestPartition:
    """A partition of the metadata topic."""

    partition_index: int = int32(entity=Entity.PARTITION)


@wire_struct
class DescribeQuorumRequestTopic:
    """The metadata topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[DescribeQuorumRequestPartition] = array(DescribeQuorumRequestPartition)


@wire_struct
class DescribeQuorumRequest(Message):
    """Asks for the quorum of partition 0 of ``__cluster_metadata``."""

    topics: list[DescribeQuorumRequestTopic] = array(DescribeQuorumRequestTopic)


@wire_struct
class ReplicaState:
    """A voter or an observer; times are -1 if they are not known."""

    replica_id: int = int32(entity=Entity.BROKER_ID)
    replica_directory_id: bytes = uuid(since=2)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(-1, since=1)
    last_caught_up_timestamp: int = int64(-1, since=1)


@wire_struct
class DescribeQuorumResponsePartition:
    """The leader, the voters and the observers of the metadata."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(since=2)
    leader_id: int = int32(entity=Entity.BROKER_ID)
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@wire_struct
class DescribeQuorumResponseTopic:
    """The metadata topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[DescribeQuorumResponsePartition] = array(DescribeQuorumResponsePartition)


@wire_struct
class Listener:
    """An address of a voter."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@wire_struct
class Node:
    """A voter's addresses."""

    node_id: int = int32(entity=Entity.BROKER_ID)
    listeners: list[Listener] = array(Listener)


@wire_struct
class DescribeQuorumResponse(Message):
    """Gives the state of the quorum."""

    error_code: int = int16()
    error_message: str | None = nullable_string(since=2)
    topics: list[DescribeQuorumResponseTopic] = array(DescribeQuorumResponseTopic)
    nodes: list[Node] = array(Node, since=2)


API = Api(
    ApiKey.DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    versions=range(3),
    flexible_from=0,
)
