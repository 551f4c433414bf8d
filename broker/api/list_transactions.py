"""ListTransactions (key 66): the transactional ids that this broker coordinates. Versions 0–2.

A transaction is listed if it passes all filters: by state, producer id, time since its start (KIP-994), and a regular
expression in RE2's syntax that matches the whole id (KIP-1152; of ASCII characters only, as those of consumer groups).
As in Kafka, the time since the start is that of complete transactions too. While a partition of transactional ids is
being loaded there is no list, but the error COORDINATOR_LOAD_IN_PROGRESS. A long list is made in steps, between which
transactions may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.group.consumer.expression import Expression
from purgatorio.broker.group.consumer.expression_parser import ExpressionError
from purgatorio.broker.layers.access.guards.transactions import list_transactions as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.time.long_work import Steps
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.broker.txn.values import NO_TIME
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from purgatorio.protocol.transaction_state import TransactionState

_BY_NAME: Final = {state.state_name: state for state in TransactionState}


def handle(transactions: Transactions, ctx: RequestContext, request: ListTransactionsRequest, reply: Reply) -> None:
    """Answer with the transactions that pass all filters."""
    transactions.listings.begin(_list(transactions, request, reply), ctx.session)


def _list(transactions: Transactions, request: ListTransactionsRequest, reply: Reply) -> Steps:
    """Look at all transactional ids, and reply after the last one."""
    shards = list(transactions.coordinator.shards)
    response = ListTransactionsResponse(
        unknown_state_filters=list(dict.fromkeys(name for name in request.state_filters if name not in _BY_NAME))
    )
    if any(shard.state is ShardState.LOADING for shard in shards):
        response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        reply(response)
        return
    try:
        passes = _Filter(request, transactions.clock.wall_ms())
        for each in _known(shards):
            yield passes.cost(each)
            if not each.value.is_new and passes(each):
                response.transaction_states.append(
                    ListedTransaction(
                        transactional_id=each.transactional_id,
                        producer_id=each.value.producer_id,
                        transaction_state=each.value.state.state_name,
                    )
                )
    except ExpressionError:
        response.transaction_states = []
        response.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
    reply(response)


def _known(shards: Sequence[TransactionShard]) -> Iterator[Transaction]:
    """Yield the transactions of active shards; they may change between two."""
    for shard in shards:
        yield from list(shard.transactions.values()) if shard.is_active else ()


class _Filter:
    """The filters of a request.

    Raises:
        ExpressionError: the regular expression is malformed, or takes too much work.
    """

    def __init__(self, request: ListTransactionsRequest, now_ms: int) -> None:
        self._states = {_BY_NAME[name] for name in request.state_filters if name in _BY_NAME}
        self._has_states = bool(request.state_filters)
        self._producer_ids = set(request.producer_id_filters)
        duration_ms = request.duration_filter_ms
        self._started_before_ms = None if duration_ms < 0 else now_ms - duration_ms
        pattern = request.transactional_id_pattern
        self._expression = Expression(pattern) if pattern else None

    def cost(self, transaction: Transaction) -> int:
        """Return what a look at a transaction costs (see `LongWork`): some 0.5 µs for a character that is matched."""
        return 2 + (0 if self._expression is None else len(transaction.transactional_id) // 2)

    def __call__(self, transaction: Transaction) -> bool:
        """Return whether a transaction passes."""
        value = transaction.value
        before_ms = self._started_before_ms
        return (
            (not self._has_states or value.state in self._states)
            and (not self._producer_ids or value.producer_id in self._producer_ids)
            and (before_ms is None or NO_TIME < value.started_ms < before_ms)
            and (self._expression is None or self._expression.matches(transaction.transactional_id))
        )


API: Final = ApiHandler(
    key=ApiKey.LIST_TRANSACTIONS,
    min_version=0,
    max_version=2,
    needs=guard,
    bind=lambda services: partial(handle, services.transactions),
)
