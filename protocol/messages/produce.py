"""Produce, key 0, versions 3 to 13: append record batches to partitions.

* Versions 0 to 2 carry message sets of the old formats and have no codec (dropped by KIP-896).
* 3 adds the transactional id; 4 may answer KAFKA_STORAGE_ERROR; 5 adds log_start_offset; 7 allows zstd (KIP-110).
* 8 adds record_errors and error_message (KIP-467); 9 is the first flexible version.
* 10 adds the current leader and its endpoint as tagged fields, for NOT_LEADER_OR_FOLLOWER only (KIP-951).
* 11 may answer TRANSACTION_ABORTABLE (KIP-890); 12 adds partitions to transactions implicitly (KIP-890).
* 13 names topics by id (KIP-516).

In the response throttle_time_ms comes after the topics.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    Records,
    array,
    int16,
    int32,
    int64,
    nullable_string,
    records,
    string,
    struct,
    uuid,
    wire_struct,
)
from purgatorio.protocol.primitives import ONE_BYTE_UVARINTS


@wire_struct
class PartitionProduceData:
    """The batches for one partition."""

    index: int = int32(entity=Entity.PARTITION)
    records: Records = records()


@wire_struct
class TopicProduceData:
    """The partitions of one topic."""

    name: str = string(until=12, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=13, entity=Entity.TOPIC_ID)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@wire_struct
class ProduceRequest(Message):
    """Asks to append batches; `acks` is -1 (all in-sync replicas), 1 (the leader) or 0 (no response)."""

    transactional_id: str | None = nullable_string(None, since=3, null_since=3, entity=Entity.TRANSACTIONAL_ID)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@wire_struct
class BatchIndexAndErrorMessage:
    """One rejected record, by its index in the batch, with the reason."""

    batch_index: int = int32(since=8)
    batch_index_error_message: str | None = nullable_string(None, since=8)


@wire_struct(frozen=True)
class LeaderIdAndEpoch:
    """The leader that the broker knows, with its epoch; -1 if it knows none."""

    leader_id: int = int32(-1, since=10, entity=Entity.BROKER_ID)
    leader_epoch: int = int32(-1, since=10)


@wire_struct
class PartitionProduceResponse:
    """The result for one partition.

    `log_append_time_ms` is -1 if the topic keeps the producers' timestamps.
    """

    index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(-1, since=2)
    log_start_offset: int = int64(-1, since=5)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = nullable_string(None, since=8)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=10, tag=0)


@wire_struct
class TopicProduceResponse:
    """The partitions of one topic."""

    name: str = string(until=12, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=13, entity=Entity.TOPIC_ID)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@wire_struct
class NodeEndpoint:
    """The endpoint of a leader that the response names."""

    node_id: int = int32(since=10, entity=Entity.BROKER_ID)
    host: str = string(since=10)
    port: int = int32(since=10)
    rack: str | None = nullable_string(None, since=10)


@wire_struct
class ProduceResponse(Message):
    """Gives for each partition the base offset of its batches, or an error."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(since=1)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)


TOPIC_IDS_VERSION: Final = 13
"""The first version that names topics by id (KIP-516)."""
_FLEXIBLE_VERSION: Final = 9
_ONE_TOPIC: Final = b"\x02"
_LONGEST_SHORT_NAME: Final = 126
_ONE_PARTITION: Final = Struct(">Bihqqq")
_NOTHING_ELSE: Final = b"\x01" + bytes(8)
"""No record errors, error message and tags; no tags of the topic; no throttle time; no tags of the message."""


def encode_one_appended(
    version: int,
    topic: str,
    topic_id: bytes,
    index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes | None:
    """Encode the usual `ProduceResponse`, to a batch for one partition that was appended, in a fifth of the time.

    Args:
        topic_id: the topic's id, which versions from 13 on have in place of its name.

    Returns:
        The message, or None if it takes the encoder of `ProduceResponse`: the version is not flexible, or the name is
        long.
    """
    partition = _ONE_PARTITION.pack(2, index, 0, base_offset, log_append_time_ms, log_start_offset)
    if version >= TOPIC_IDS_VERSION:
        return b"".join((_ONE_TOPIC, topic_id, partition, _NOTHING_ELSE))
    name = topic.encode()
    if version < _FLEXIBLE_VERSION or len(name) > _LONGEST_SHORT_NAME:
        return None
    return b"".join((_ONE_TOPIC, ONE_BYTE_UVARINTS[len(name) + 1], name, partition, _NOTHING_ELSE))


API = Api(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, versions=range(3, 14), flexible_from=9)
