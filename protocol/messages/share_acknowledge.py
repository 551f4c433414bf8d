"""ShareAcknowledge, key 79, versions 1 and 2, both flexible (KIP-932): acknowledge acquired records.

Version 0 was of an early access, and is gone. Version 2 adds renewals (KIP-1222).
"""

from __future__ import annotations

from typing import Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT8,
    Api,
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    struct,
    uuid,
    wire_struct,
)


@wire_struct
class AcknowledgementBatch:
    """The offsets from `first_offset` to `last_offset`, both included, with one type for all, or one for each.

    The types are 0 for a gap, 1 accept, 2 release, 3 reject, 4 renew.
    """

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(INT8)


@wire_struct
class AcknowledgePartition:
    """The acknowledgements of one partition."""

    partition_index: int = int32(entity=Entity.PARTITION)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@wire_struct
class AcknowledgeTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


@wire_struct
class ShareAcknowledgeRequest(Message):
    """Acknowledges records within a share session; epoch -1 ends the session."""

    group_id: str | None = nullable_string(None, entity=Entity.GROUP_ID)
    member_id: str | None = nullable_string()
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean(since=2)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


@wire_struct(frozen=True)
class LeaderIdAndEpoch:
    """The leader that the broker knows, with its epoch; -1 if it knows none."""

    leader_id: int = int32(-1)
    leader_epoch: int = int32(-1)


@wire_struct
class AcknowledgePartitionData:
    """The result of the acknowledgements of one partition: all of them count, or none."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


@wire_struct
class ShareAcknowledgeTopicResponse:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[AcknowledgePartitionData] = array(AcknowledgePartitionData)


@wire_struct
class NodeEndpoint:
    """The endpoint of a leader that the response names."""

    node_id: int = int32(entity=Entity.BROKER_ID)
    host: str = string()
    port: int = int32()
    rack: str | None = nullable_string(None)


@wire_struct
class ShareAcknowledgeResponse(Message):
    """Reports the result for each partition, and for how long acquired records stay locked."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    acquisition_lock_timeout_ms: int = int32(since=2)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)


MAX_ELEMENTS: Final = 25_000
"""The most elements of a request: each acknowledgement of a single record makes three, with its type and tags."""

API = Api(
    ApiKey.SHARE_ACKNOWLEDGE,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    versions=range(1, 3),
    flexible_from=0,
    max_elements=MAX_ELEMENTS,
)
