"""Fetch, key 1, versions 4 to 18: read record batches; consumers and followers send it.

* Versions 0 to 3 serve the old record formats and have no codec (dropped by KIP-896).
* 4 adds the isolation level and aborted transactions (KIP-98); 5 adds log_start_offset (KIP-107).
* 7 adds fetch sessions (KIP-227), with session id, epoch and forgotten topics, and a top-level error code.
* 9 adds current_leader_epoch (KIP-320); 10 allows zstd (KIP-110); 11 adds racks and preferred replicas (KIP-392).
* 12 is the first flexible version, and adds last_fetched_epoch and diverging_epoch (KIP-595).
* 13 names topics by id (KIP-516); 14 may answer OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).
* 15 moves replica_id into the tagged replica_state, and adds the broker epoch (KIP-903).
* 16 adds the endpoints of current leaders (KIP-951); 17 the replica's directory id (KIP-853).
* 18 adds the high watermark that the follower knows (KIP-1166).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import (
    INT32,
    Api,
    Message,
    Records,
    array,
    int8,
    int16,
    int32,
    int64,
    nullable_array,
    nullable_string,
    records,
    string,
    struct,
    uuid,
    wire_struct,
)

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
"""The epoch of a full request that wants a session."""
FINAL_EPOCH: Final = -1
"""The epoch of a full request that wants none, and ends the one that it names."""
SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""The errors of a whole request, after which a client begins a session again; it looks for others at the partitions."""
UNKNOWN_HIGH_WATERMARK: Final = 2**63 - 1
"""The high watermark in a request that does not give one (KIP-1166)."""


@wire_struct(frozen=True)
class ReplicaState:
    """The fetching follower's id and broker epoch; the id is -1 for a consumer."""

    replica_id: int = int32(-1, since=15, entity=Entity.BROKER_ID)
    replica_epoch: int = int64(-1, since=15)


@wire_struct
class FetchPartition:
    """One partition to read; epochs are -1 if the client does not give them."""

    partition: int = int32(entity=Entity.PARTITION)
    current_leader_epoch: int = int32(-1, since=9)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(-1, since=12)
    log_start_offset: int = int64(-1, since=5)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(since=17, tag=0)
    high_watermark: int = int64(UNKNOWN_HIGH_WATERMARK, since=18, tag=1)


@wire_struct
class FetchTopic:
    """The partitions of one topic."""

    topic: str = string(until=12, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=13, entity=Entity.TOPIC_ID)
    partitions: list[FetchPartition] = array(FetchPartition)


@wire_struct
class ForgottenTopic:
    """Partitions to remove from the fetch session."""

    topic: str = string(since=7, until=12, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=13, entity=Entity.TOPIC_ID)
    partitions: list[int] = array(INT32, since=7, entity=Entity.PARTITION)


@wire_struct
class FetchRequest(Message):
    """Asks for records; the broker waits up to `max_wait_ms` for `min_bytes`.

    `replica_id` is -1 for a consumer; from version 15 on it is in `replica_state`.
    """

    cluster_id: str | None = nullable_string(None, since=12, null_since=12, tag=0)
    replica_id: int = int32(-1, until=14, entity=Entity.BROKER_ID)
    replica_state: ReplicaState = struct(ReplicaState, since=15, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(0x7FFFFFFF, since=3)
    isolation_level: int = int8(since=4)
    session_id: int = int32(since=7)
    session_epoch: int = int32(-1, since=7)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, since=7)
    rack_id: str = string(since=11)


@wire_struct(frozen=True)
class EpochEndOffset:
    """The point of divergence: the leader's largest epoch up to the follower's last fetched one, and its end offset."""

    epoch: int = int32(-1, since=12)
    end_offset: int = int64(-1, since=12)


@wire_struct(frozen=True)
class LeaderIdAndEpoch:
    """The leader that the broker knows, with its epoch; -1 if it knows none."""

    leader_id: int = int32(-1, since=12, entity=Entity.BROKER_ID)
    leader_epoch: int = int32(-1, since=12)


@wire_struct(frozen=True)
class SnapshotId:
    """The snapshot to fetch instead; only for the metadata log (KIP-630)."""

    end_offset: int = int64(-1)
    epoch: int = int32(-1)


@wire_struct
class AbortedTransaction:
    """One aborted transaction in the fetched range, for read_committed consumers."""

    producer_id: int = int64(since=4, entity=Entity.PRODUCER_ID)
    first_offset: int = int64(since=4)


@wire_struct
class PartitionData:
    """The records of one partition, with its high watermark and last stable offset."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(-1, since=4)
    log_start_offset: int = int64(-1, since=5)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, since=12, tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = nullable_array(
        AbortedTransaction, since=4, null_since=4
    )
    preferred_read_replica: int = int32(-1, since=11, entity=Entity.BROKER_ID)
    records: Records = records()


@wire_struct
class FetchableTopicResponse:
    """The partitions of one topic."""

    topic: str = string(until=12, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=13, entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class NodeEndpoint:
    """The endpoint of a leader that the response names."""

    node_id: int = int32(since=16, entity=Entity.BROKER_ID)
    host: str = string(since=16)
    port: int = int32(since=16)
    rack: str | None = nullable_string(None, since=16)


@wire_struct
class FetchResponse(Message):
    """Gives the records of each partition; `session_id` 0: there is no fetch session."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(since=7)
    session_id: int = int32(since=7)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=16, tag=0)


MAX_ELEMENTS: Final = 25_000
"""The most elements of a request: the first one of a follower's session names all partitions of its leader, and each in
a topic of its own, with its tagged fields, makes two. The broker allows consumers fewer partitions."""

API = Api(ApiKey.FETCH, FetchRequest, FetchResponse, versions=range(4, 19), flexible_from=12, max_elements=MAX_ELEMENTS)


def replica_of(request: FetchRequest) -> int:
    """Return the id of the follower that fetches; negative: a consumer does. Version 15 has moved it (KIP-903)."""
    replica_id = request.replica_state.replica_id
    return replica_id if replica_id >= 0 else request.replica_id


def is_full(request: FetchRequest) -> bool:
    """Return whether a request names all its partitions; others name what has changed in their session (KIP-227)."""
    return request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
