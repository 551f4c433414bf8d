"""TxnOffsetCommit, key 28, versions 0 to 6 (KIP-98): store a group's offsets when a transaction commits.

* 2 adds leader epochs (KIP-320).
* 3 is the first flexible version; it adds the membership, and may answer ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or
  FENCED_INSTANCE_ID (KIP-447).
* 4 may answer TRANSACTION_ABORTABLE (KIP-890).
* 5 adds the partition of `__consumer_offsets` to the transaction, so that AddOffsetsToTxn is not needed (KIP-890).
* 6 names topics by id (KIP-1319).
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
    uuid,
    wire_struct,
)


@wire_struct
class TxnOffsetCommitRequestPartition:
    """The offset of one partition; the leader epoch is -1 if the client does not give it."""

    partition_index: int = int32(entity=Entity.PARTITION)
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(-1, since=2)
    committed_metadata: str | None = nullable_string()


@wire_struct
class TxnOffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: str = string(until=5, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=6, entity=Entity.TOPIC_ID)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@wire_struct
class TxnOffsetCommitRequest(Message):
    """Asks the group coordinator to store offsets that take effect when the transaction commits.

    Generation or member epoch is -1, and the member id empty, if the client does not give its membership.
    """

    transactional_id: str = string(entity=Entity.TRANSACTIONAL_ID)
    group_id: str = string(entity=Entity.GROUP_ID)
    producer_id: int = int64(entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16()
    generation_id: int = int32(-1, since=3)
    member_id: str = string(since=3)
    group_instance_id: str | None = nullable_string(None, since=3, null_since=3)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@wire_struct
class TxnOffsetCommitResponsePartition:
    """The result for one partition."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()


@wire_struct
class TxnOffsetCommitResponseTopic:
    """The partitions of one topic."""

    name: str = string(until=5, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=6, entity=Entity.TOPIC_ID)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@wire_struct
class TxnOffsetCommitResponse(Message):
    """Reports for each partition whether its offset is stored, pending the transaction's end."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)


API = Api(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse, versions=range(7), flexible_from=3)
