"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Versions 0–5; 5 bumps the producer's epoch, and answers the producer id and epoch of the next transaction (KIP-890). The
answer means that the result is decided and replicated; records become readable with their partitions' markers. A
request that finds a transition under way waits until it has ended, where Kafka answers CONCURRENT_TRANSACTIONS:
kafkajs asks only once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.init_producer_id import fenced_before
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import named
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_VERSION: Final = 2
"""The first version that answers PRODUCER_FENCED."""
BUMP_VERSION: Final = 5
"""The first version that bumps the epoch."""


def handle(transactions: Transactions, ctx: RequestContext, request: EndTxnRequest, reply: Reply) -> None:
    """Commit or abort the transaction; the answer has the producer id and epoch of the next one."""

    def done(error_code: ErrorCode, producer: ProducerIdAndEpoch) -> None:
        reply(
            EndTxnResponse(
                error_code=fenced_before(FENCED_VERSION, ctx, error_code),
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
            )
        )

    if not request.transactional_id:
        reply(EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    transactions.producers.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        request.committed,
        done,
        bumps=ctx.api_version >= BUMP_VERSION,
        client=ctx.client_id or "",
    )


API: Final = ApiHandler(
    key=ApiKey.END_TXN,
    min_version=0,
    max_version=5,
    needs=named(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
    bind=lambda services: partial(handle, services.transactions),
)
