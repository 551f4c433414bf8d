"""InitProducerId (key 22): give a producer its id and epoch (KIP-98, KIP-360, KIP-588).

Versions 0–5. A producer without a transactional id gets a new id and epoch 0, even if it has an id already. One with a
transactional id fences those before it; while their transaction is being aborted the request waits, where Kafka answers
CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.transactions import init_producer_id as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from purgatorio.protocol.parts import failed

FENCED_VERSION: Final = 4
"""The first version that answers PRODUCER_FENCED."""


def handle(transactions: Transactions, ctx: RequestContext, request: InitProducerIdRequest, reply: Reply) -> None:
    """Answer with a producer id and an epoch."""
    if request.transactional_id is None:
        _allocate(transactions, request, reply)
        return

    def done(error_code: ErrorCode, producer: ProducerIdAndEpoch) -> None:
        if error_code:
            reply(failed(ApiKey.INIT_PRODUCER_ID, request, fenced_before(FENCED_VERSION, ctx, error_code)))
        else:
            reply(InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch))

    transactions.producers.init(
        request.transactional_id,
        request.transaction_timeout_ms,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        done,
        client=ctx.client_id or "",
    )


def _allocate(transactions: Transactions, request: InitProducerIdRequest, reply: Reply) -> None:
    """Answer with a new producer id for a producer without transactions."""

    def answer(producer_id: int | None) -> None:
        if producer_id is None:
            # Retriable: the store is overloaded or this broker is stopping; another broker can answer.
            reply(failed(ApiKey.INIT_PRODUCER_ID, request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    transactions.producer_ids.next(answer)


def fenced_before(version: int, ctx: RequestContext, error_code: ErrorCode) -> ErrorCode:
    """Return the error code as the request's version knows it: before `version` a fenced producer has another one.

    PRODUCER_FENCED came with KIP-588; before, clients knew INVALID_PRODUCER_EPOCH.
    """
    is_old = ctx.api_version < version
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old and error_code == ErrorCode.PRODUCER_FENCED else error_code


API: Final = ApiHandler(
    key=ApiKey.INIT_PRODUCER_ID,
    min_version=0,
    max_version=5,
    needs=guard,
    bind=lambda services: partial(handle, services.transactions),
)
