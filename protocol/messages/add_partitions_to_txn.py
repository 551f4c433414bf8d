"""AddPartitionsToTxn, key 24, versions 0 to 5 (KIP-98): add partitions to transactions.

* 2 may answer PRODUCER_FENCED (KIP-588), older versions INVALID_PRODUCER_EPOCH; 3 is the first flexible one.
* 4 is for brokers only (KIP-890): one request has several transactions, each to be extended or only to be verified.
* 5 may answer TRANSACTION_ABORTABLE (KIP-890).

Versions 0 to 3, which clients send, have the only transaction in the message itself.
"""

from __future__ import annotations

from typing import Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import INT32, Api, Message, array, boolean, int16, int32, int64, string, wire_struct

BROKERS_VERSION: Final = 4
"""The first version that brokers send, and no clients: for many transactions, which they may verify only (KIP-890)."""


@wire_struct
class AddPartitionsToTxnTopic:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class AddPartitionsToTxnTransaction:
    """One transaction; with `verify_only` the coordinator checks that it has the partitions, and adds none."""

    transactional_id: str = string(since=4, entity=Entity.TRANSACTIONAL_ID)
    producer_id: int = int64(since=4, entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16(since=4)
    verify_only: bool = boolean(since=4)
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, since=4)


@wire_struct
class AddPartitionsToTxnRequest(Message):
    """Asks the transaction coordinator to add partitions, before the producer writes to them."""

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, since=4)
    v3_and_below_transactional_id: str = string(until=3, entity=Entity.TRANSACTIONAL_ID)
    v3_and_below_producer_id: int = int64(until=3, entity=Entity.PRODUCER_ID)
    v3_and_below_producer_epoch: int = int16(until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, until=3)


@wire_struct
class AddPartitionsToTxnPartitionResult:
    """The result for one partition."""

    partition_index: int = int32(entity=Entity.PARTITION)
    partition_error_code: int = int16()


@wire_struct
class AddPartitionsToTxnTopicResult:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


@wire_struct
class AddPartitionsToTxnResult:
    """The partitions of one transaction."""

    transactional_id: str = string(since=4, entity=Entity.TRANSACTIONAL_ID)
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, since=4)


@wire_struct
class AddPartitionsToTxnResponse(Message):
    """Reports for each partition whether it is in the transaction.

    If one partition cannot be added, none of its transaction is: the others have OPERATION_NOT_ATTEMPTED.
    """

    throttle_time_ms: int = int32()
    error_code: int = int16(since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, until=3)


API = Api(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    versions=range(6),
    flexible_from=3,
)
