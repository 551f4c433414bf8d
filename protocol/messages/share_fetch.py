"""ShareFetch, key 78, versions 1 and 2, both flexible (KIP-932): acquire records for a member of a share group.

Version 0 was of an early access, and is gone. Version 2 adds the acquire mode (KIP-1206) and renewals (KIP-1222).
"""

from __future__ import annotations

from typing import Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT32,
    NEVER,
    Api,
    Message,
    Records,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nullable_string,
    records,
    struct,
    uuid,
    wire_struct,
)
from purgatorio.protocol.messages.share_acknowledge import (
    MAX_ELEMENTS,
    AcknowledgementBatch,
    LeaderIdAndEpoch,
    NodeEndpoint,
)

INITIAL_EPOCH: Final = 0
"""The epoch of a request that opens a share session."""
FINAL_EPOCH: Final = -1
"""The epoch of a request that ends its share session."""


@wire_struct
class FetchPartition:
    """One partition to fetch from, with what became of records that were acquired before."""

    partition_index: int = int32(entity=Entity.PARTITION)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@wire_struct
class FetchTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[FetchPartition] = array(FetchPartition)


@wire_struct
class ForgottenTopic:
    """Partitions to remove from the share session."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class ShareFetchRequest(Message):
    """Acknowledges, then acquires records of the session's partitions; waits up to `max_wait_ms` for `min_bytes`.

    The acquire mode is 0 for whole record batches, 1 for no more than `max_records`. Epoch -1 ends the session.
    """

    group_id: str | None = nullable_string(None, entity=Entity.GROUP_ID)
    member_id: str | None = nullable_string()
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8(since=2)
    is_renew_ack: bool = boolean(since=2)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


@wire_struct
class AcquiredRecords:
    """The offsets from `first_offset` to `last_offset`, both included, that the member has now."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@wire_struct
class PartitionData:
    """The record batches of one partition; the member has the records that `acquired_records` names, and no others."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = nullable_string(None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: Records = records(null_since=NEVER)
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


@wire_struct
class ShareFetchableTopicResponse:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class ShareFetchResponse(Message):
    """Gives the acquired records of each partition, and for how long they are locked."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)


API = Api(
    ApiKey.SHARE_FETCH,
    ShareFetchRequest,
    ShareFetchResponse,
    versions=range(1, 3),
    flexible_from=0,
    max_elements=MAX_ELEMENTS,
)
