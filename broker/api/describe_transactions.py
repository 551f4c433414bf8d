"""DescribeTransactions (key 65): the last transaction of each transactional id. Version 0.

A transaction whose result is decided has the partitions that still lack their marker (KIP-664).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.request import Reply, RequestContext
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
    described = [_describe(transactions, each) for each in request.transactional_ids]
    reply(DescribeTransactionsResponse(transaction_states=described))


def _describe(transactions: Transactions, transactional_id: str) -> DescribedTransaction:
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
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=value.state.state_name,
        transaction_timeout_ms=value.timeout_ms,
        transaction_start_time_ms=value.started_ms,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        topics=_topics(value.partitions if transaction.unmarked is None else transaction.unmarked),
    )


def _topics(partitions: Iterable[TopicPartition]) -> list[TopicData]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [TopicData(topic=topic, partitions=ids) for topic, ids in by_topic.items()]


def _refused(transactional_id: str, error_code: ErrorCode) -> DescribedTransaction:
    return DescribedTransaction(error_code=error_code, transactional_id=transactional_id)


def error_response(request: DescribeTransactionsRequest, error_code: ErrorCode) -> DescribeTransactionsResponse:
    """Return the response with `error_code` for every id."""
    return DescribeTransactionsResponse(
        transaction_states=[_refused(each, error_code) for each in request.transactional_ids]
    )


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    min_version=0,
    max_version=0,
    bind=lambda services: partial(handle, services.transactions),
    error_response=error_response,
)
