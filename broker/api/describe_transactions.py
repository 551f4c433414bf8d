"""DescribeTransactions (key 65): the last transaction of each transactional id. Version 0.

A transaction whose result is decided has the partitions that still lack their marker (KIP-664). A long answer is made
in steps, between which transactions may change; an id that is named twice is described once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.answers import NUMBER_BYTES, PIECE_BYTES, EntryPieces, answer_each
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.transactions import hide_topics
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)


def handle(transactions: Transactions, ctx: RequestContext, request: DescribeTransactionsRequest, reply: Reply) -> None:
    """Describe each id."""
    answer_each(
        transactions.listings,
        ctx,
        request.transactional_ids,
        partial(_describe, transactions),
        _refused,
        lambda described: reply(DescribeTransactionsResponse(transaction_states=described)),
    )


def _describe(transactions: Transactions, transactional_id: str) -> EntryPieces[DescribedTransaction]:
    if not transactional_id:
        return _refused(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        shard = transactions.coordinator.shard_of(transactional_id)
    except CoordinatorError as error:
        return _refused(transactional_id, error.error_code)
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or transaction.value.is_new:
        return _refused(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    value = transaction.value
    described = DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=value.state.state_name,
        transaction_timeout_ms=value.timeout_ms,
        transaction_start_time_ms=value.started_ms,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        topics=[],
    )
    by_topic: dict[str, list[int]] = {}
    for topic, partition in list(value.partitions if transaction.unmarked is None else transaction.unmarked):
        numbers = by_topic.get(topic)
        if numbers is None:
            numbers = by_topic[topic] = []
            described.topics.append(TopicData(topic=topic, partitions=numbers))
            yield PIECE_BYTES
        numbers.append(partition)
        yield NUMBER_BYTES
    return described


def _refused(transactional_id: str, error_code: ErrorCode) -> DescribedTransaction:
    return DescribedTransaction(error_code=error_code, transactional_id=transactional_id)


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    min_version=0,
    max_version=0,
    needs=EachOne(
        ApiKey.DESCRIBE_TRANSACTIONS, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, change=hide_topics
    ),
    bind=lambda services: partial(handle, services.transactions),
)
