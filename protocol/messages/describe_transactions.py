"""DescribeTransactions, key 65, version 0 (KIP-664): describe transactions to an admin client, by transactional id.

Version 0 is flexible.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import INT32, STRING, Api, Message, array, int16, int32, int64, string, wire_struct


@wire_struct
class DescribeTransactionsRequest(Message):
    """Asks for the transactions of these transactional ids."""

    transactional_ids: list[str] = array(STRING, entity=Entity.TRANSACTIONAL_ID)


@wire_struct
class TopicData:
    """The partitions of one topic."""

    topic: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class DescribedTransaction:
    """The last transaction of one transactional id, or an error; the state's name is Kafka's, such as "Ongoing".

    The start time is -1 if no transaction has begun. Topics have the partitions that still lack a marker.
    """

    error_code: int = int16()
    transactional_id: str = string(entity=Entity.TRANSACTIONAL_ID)
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64(entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@wire_struct
class DescribeTransactionsResponse(Message):
    """Describes the transaction of each requested id."""

    throttle_time_ms: int = int32()
    transaction_states: list[DescribedTransaction] = array(DescribedTransaction)


API = Api(
    ApiKey.DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    versions=range(1),
    flexible_from=0,
)
