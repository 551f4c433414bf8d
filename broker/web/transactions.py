"""The requests of the JSON API about transactions.

They are answered by the coordinators of transactional ids in this process. The status is 404 if the id, partition or
transaction does not exist, 409 if the transaction cannot be ended so, and 503 if a coordinator does not run, or loads
its ids.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.operator import ClusterControl, HangingTransactions, TransactionControl
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.broker.web import document
from purgatorio.broker.web.requests import Body, Nothing, int_param, json_response, read_change
from purgatorio.broker.web.transaction_state import Filter, read_transaction, read_transactions
from purgatorio.broker.web.views import ClusterView
from purgatorio.protocol.transaction_state import TransactionState

MAX_TRANSACTIONS: Final = 1_000
"""Transactions that one response lists."""
STATES: Final = {state.state_name: state for state in TransactionState if state < TransactionState.DEAD}
"""The states by which transactions are listed."""
_MAX_INT64: Final = 2**63 - 1


class HangingAbort(Body):
    """Which hanging transaction is to be aborted.

    Attributes:
        topic, partition: where it is open.
        producer_id: the producer of its records.
    """

    topic: Annotated[str, Field(min_length=1, max_length=249)]
    partition: Annotated[int, Field(ge=0, le=2**31 - 1)]
    producer_id: Annotated[int, Field(ge=0, le=_MAX_INT64)]


class TransactionsApi:
    """The handlers.

    Args:
        cluster: the cluster of the brokers.
        control: knows the newest metadata.
        transactions: finds and aborts transactions.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(
        self, cluster: ClusterView, control: ClusterControl, transactions: TransactionControl, allowed_host: str
    ) -> None:
        self._cluster = cluster
        self._control = control
        self._transactions = transactions
        self._hanging = HangingTransactions(cluster, lambda: control.image, transactions)
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes. A transactional id may contain anything, slashes too."""
        transaction = "/api/v1/transactions/{transactional_id:path}"
        return [
            Route("/api/v1/transactions", self.transactions),
            Route(f"{transaction}/abort", self.abort, methods=["POST"]),
            Route(f"{transaction}/expire", self.expire, methods=["POST"]),
            Route(transaction, self.transaction),
            Route("/api/v1/hanging-transactions", self.hanging),
            Route("/api/v1/hanging-transactions/abort", self.abort_hanging, methods=["POST"]),
        ]

    async def transactions(self, request: Request) -> Response:
        """``GET /api/v1/transactions?state=Ongoing``: transactions of all coordinators, the oldest open one first."""
        limit = int_param(request, "limit", MAX_TRANSACTIONS, most=MAX_TRANSACTIONS)
        rows, count, loading = await read_transactions(self._transactions, limit, self._filter(request))
        return json_response({"transactions": rows, "transaction_count": count, "loading_partition_count": loading})

    def _filter(self, request: Request) -> Filter:
        """Return whether a transaction passes the filters of the query string."""
        name = request.query_params.get("state")
        if name is not None and name not in STATES:
            raise HTTPException(400, f"state must be one of {', '.join(STATES)}")
        state = None if name is None else STATES[name]
        producer_id = int_param(request, "producer_id", -1, most=_MAX_INT64)
        open_ms = int_param(request, "open_longer_than_ms", -1, most=_MAX_INT64)
        latest_ms = self._cluster.clock.wall_ms() - open_ms

        def passes(transaction: Transaction) -> bool:
            value = transaction.value
            return (
                (state is None or value.state is state)
                and producer_id in (-1, value.producer_id)
                and (open_ms < 0 or (not value.is_idle and value.started_ms < latest_ms))
            )

        return passes

    async def transaction(self, request: Request) -> Response:
        """``GET /api/v1/transactions/{id}``: a transactional id, and the partitions of its transaction."""
        transactional_id = request.path_params["transactional_id"]
        return json_response(read_transaction(self._transactions, self._control.image, transactional_id))

    async def abort(self, request: Request) -> Response:
        """``POST /api/v1/transactions/{id}/abort`` with ``{}``: abort the open transaction, and fence its producer."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        transactional_id = request.path_params["transactional_id"]
        producer = await self._transactions.abort(transactional_id)
        return json_response({"id": transactional_id, "state": "aborted", **producer._asdict()})

    async def expire(self, request: Request) -> Response:
        """``POST /api/v1/transactions/{id}/expire`` with ``{}``: end the time of the open transaction now."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        transactional_id = request.path_params["transactional_id"]
        self._transactions.expire(transactional_id)
        return json_response({"id": transactional_id, "state": "expired"})

    async def hanging(self, request: Request) -> Response:
        """``GET /api/v1/hanging-transactions``: those that are open in a log, and unknown to all coordinators."""
        now_ms = self._cluster.clock.wall_ms()
        found = await self._hanging.find()
        rows: list[document.HangingTransaction] = [
            {
                "topic": each.tp.topic,
                "partition": each.tp.partition,
                "producer_id": each.producer_id,
                "producer_epoch": each.producer_epoch,
                "start_offset": each.start_offset,
                "open_ms": max(0, now_ms - each.started_ms),
                "id": each.transactional_id,
            }
            for each in found[:MAX_TRANSACTIONS]
        ]
        return json_response({"transactions": rows, "transaction_count": len(found), "loading_partition_count": 0})

    async def abort_hanging(self, request: Request) -> Response:
        """``POST /api/v1/hanging-transactions/abort`` with a `HangingAbort`: write the abort marker that it lacks."""
        wanted = await read_change(request, HangingAbort, self._allowed_host, self._cluster.clock)
        tp = TopicPartition(wanted.topic, wanted.partition)
        ended = await self._hanging.abort(tp, wanted.producer_id)
        body = {"topic": tp.topic, "partition": tp.partition, "producer_id": ended.producer_id, "state": "aborted"}
        return json_response(body)


TRANSACTION_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {
        "method": "GET",
        "path": "/api/v1/transactions",
        "does": "transactional ids with their transactions: state, producer, times, coordinator; the oldest open first",
        "query": {
            "limit": f"how many, up to {MAX_TRANSACTIONS}",
            "state": f"only those in this state: {', '.join(STATES)}",
            "producer_id": "only this producer's",
            "open_longer_than_ms": "only those that are open, or being ended, for longer",
        },
    },
    {
        "method": "GET",
        "path": "/api/v1/transactions/{id}",
        "does": "a transactional id, with the partitions of its transaction and the end markers that are missing",
    },
    {
        "method": "POST",
        "path": "/api/v1/transactions/{id}/abort",
        "does": "abort the open transaction of a transactional id, and fence its producer",
        "body": {},
    },
    {
        "method": "POST",
        "path": "/api/v1/transactions/{id}/expire",
        "does": "end the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it",
        "body": {},
    },
    {
        "method": "GET",
        "path": "/api/v1/hanging-transactions",
        "does": "transactions that are open in a log, and that no coordinator has as open",
    },
    {
        "method": "POST",
        "path": "/api/v1/hanging-transactions/abort",
        "does": "write the abort marker of a hanging transaction; refused if a coordinator knows the transaction",
        "body": {"topic": "the topic", "partition": "its partition", "producer_id": "the producer of its records"},
    },
]
