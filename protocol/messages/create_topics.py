"""CreateTopics, key 19, versions 2 to 7.

* 4 lets a client leave partitions and replication factor to the broker, with -1 (KIP-464).
* 5 is the first flexible version, and adds the created topics' partitions and configs to the response (KIP-525).
* 6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599); 7 answers with topic ids (KIP-516).
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
    nullable_array,
    nullable_string,
    string,
    uuid,
    wire_struct,
)


@wire_struct
class CreatableReplicaAssignment:
    """The replicas of one partition; the first is the preferred leader."""

    partition_index: int = int32(entity=Entity.PARTITION)
    broker_ids: list[int] = array(INT32, entity=Entity.BROKER_ID)


@wire_struct
class CreatableTopicConfig:
    """One config of the new topic."""

    name: str = string()
    value: str | None = nullable_string()


@wire_struct
class CreatableTopic:
    """One topic to create; with `assignments` the two numbers are -1."""

    name: str = string(entity=Entity.TOPIC_NAME)
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@wire_struct
class CreateTopicsRequest(Message):
    """Asks to create topics; `validate_only` creates nothing."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(60_000)
    validate_only: bool = boolean(since=1)


@wire_struct
class CreatableTopicConfigs:
    """One config of a created topic."""

    name: str = string(since=5)
    value: str | None = nullable_string(since=5)
    read_only: bool = boolean(since=5)
    config_source: int = int8(-1, since=5)
    is_sensitive: bool = boolean(since=5)


@wire_struct
class CreatableTopicResult:
    """The result for one topic; unknown numbers are -1."""

    name: str = string(entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=7, entity=Entity.TOPIC_ID)
    error_code: int = int16()
    error_message: str | None = nullable_string(since=1)
    topic_config_error_code: int = int16(since=5, tag=0)
    num_partitions: int = int32(-1, since=5)
    replication_factor: int = int16(-1, since=5)
    configs: list[CreatableTopicConfigs] | None = nullable_array(CreatableTopicConfigs, since=5, null_since=5)


@wire_struct
class CreateTopicsResponse(Message):
    """Reports for each topic whether it was created."""

    throttle_time_ms: int = int32(since=2)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)


API = Api(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse, versions=range(2, 8), flexible_from=5)
