"""AlterReplicaLogDirs, key 34, versions 1 and 2, flexible from 2: move replicas between log directories (KIP-113)."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import INT32, Api, Message, array, int16, int32, string, wire_struct


@wire_struct
class AlterReplicaLogDirTopic:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class AlterReplicaLogDir:
    """A log directory, and the replicas that shall move to it."""

    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@wire_struct
class AlterReplicaLogDirsRequest(Message):
    """Asks a broker to move replicas of its own."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@wire_struct
class AlterReplicaLogDirPartitionResult:
    """Reports the result for one replica."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()


@wire_struct
class AlterReplicaLogDirTopicResult:
    """The replicas of one topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@wire_struct
class AlterReplicaLogDirsResponse(Message):
    """Reports the result for each replica."""

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)


API = Api(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    versions=range(1, 3),
    flexible_from=2,
)
