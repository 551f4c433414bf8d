"""CreatePartitions, key 37, versions 0 to 3 (KIP-195): add partitions to topics.

Version 2 is the first flexible one; 3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
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
    nullable_array,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class CreatePartitionsAssignment:
    """The replicas of one new partition; the first is the preferred leader."""

    broker_ids: list[int] = array(INT32, entity=Entity.BROKER_ID)


@wire_struct
class CreatePartitionsTopic:
    """One topic and its new number of partitions; without assignments the controller places them."""

    name: str = string(entity=Entity.TOPIC_NAME)
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = nullable_array(CreatePartitionsAssignment)


@wire_struct
class CreatePartitionsRequest(Message):
    """Asks to create partitions; `validate_only` creates nothing."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@wire_struct
class CreatePartitionsTopicResult:
    """The result for one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)


@wire_struct
class CreatePartitionsResponse(Message):
    """Reports for each topic whether its partitions were created."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)


API = Api(
    ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsResponse, versions=range(4), flexible_from=2
)
