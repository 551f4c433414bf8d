"""DescribeLogDirs, key 35, versions 1 to 5 (KIP-113): list the replicas of a broker, with their sizes.

* 2 is the first flexible version; 3 adds a top-level error code; 4 adds the size of the volume (KIP-827);
  5 adds whether the volume is cordoned, so that it gets no new replicas (KIP-1066).
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
    int16,
    int32,
    int64,
    nullable_array,
    string,
    wire_struct,
)


@wire_struct
class DescribableLogDirTopic:
    """The partitions of one topic."""

    topic: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class DescribeLogDirsRequest(Message):
    """Asks for the replicas of these partitions; null means all replicas of the broker."""

    topics: list[DescribableLogDirTopic] | None = nullable_array(DescribableLogDirTopic, default_null=True)


@wire_struct
class DescribeLogDirsPartition:
    """One replica: its size in bytes, and how many records it lacks of the high watermark (a future replica: of the
    log end offset)."""

    partition_index: int = int32(entity=Entity.PARTITION)
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@wire_struct
class DescribeLogDirsTopic:
    """The replicas of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@wire_struct
class DescribeLogDirsResult:
    """One log directory; sizes are bytes, -1 if they are not known. A cordoned one gets no new replicas."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(-1, since=4)
    usable_bytes: int = int64(-1, since=4)
    is_cordoned: bool = boolean(since=5)


@wire_struct
class DescribeLogDirsResponse(Message):
    """Lists the log directories of the broker."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=3)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)


API = Api(
    ApiKey.DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    versions=range(1, 6),
    flexible_from=2,
)
