"""WriteTxnMarkers, key 27, versions 1 and 2 (KIP-98): end transactions in the logs of their partitions.

* Version 0 has no codec (dropped by KIP-896); 1 is the first flexible version.
* 2 adds transaction_version, by which the leader knows how epochs are bumped (KIP-1228).

Transaction coordinators send it to leaders; so does an admin client, to end a transaction that hangs (KIP-664).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT32,
    Api,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    wire_struct,
)


@wire_struct
class WritableTxnMarkerTopic:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partition_indexes: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class WritableTxnMarker:
    """The marker of one transaction, for some of its partitions; the result is true for commit, false for abort.

    `coordinator_epoch` is the leader epoch of the coordinator's partition of `__transaction_state`.
    """

    producer_id: int = int64(entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(since=2)


@wire_struct
class WriteTxnMarkersRequest(Message):
    """Asks a leader to append markers."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@wire_struct
class WritableTxnMarkerPartitionResult:
    """The result for one partition."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()


@wire_struct
class WritableTxnMarkerTopicResult:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@wire_struct
class WritableTxnMarkerResult:
    """The partitions of one marker."""

    producer_id: int = int64(entity=Entity.PRODUCER_ID)
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@wire_struct
class WriteTxnMarkersResponse(Message):
    """Reports for each marker and partition whether all in-sync replicas have it; there is no throttle time."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)


API = Api(
    ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest, WriteTxnMarkersResponse, versions=range(1, 3), flexible_from=1
)
