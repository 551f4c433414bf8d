"""InitProducerId (key 22): allocate a producer id for an idempotent producer (KIP-98, KIP-360).

Versions 0–5. Transactional producers are refused: this broker has no transaction coordinator, and advertises none of
the other APIs of transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.metadata.controller import allocate_producer_ids
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

BLOCK_SIZE = 1000

MAX_WAITING: Final = 10_000
"""The most requests that wait for a block of ids; further requests are refused with a retriable error."""


class ProducerIds:
    """Allocates producer ids, unique in the cluster, from blocks that the metadata store grants.

    Args:
        store: grants the blocks.
        block_size: the number of ids in a block.
    """

    def __init__(self, store: MetadataStore, block_size: int = BLOCK_SIZE) -> None:
        self._store = store
        self._block_size = block_size
        self._block = iter(range(0))
        self._waiting: list[Callable[[int | None], None]] = []

    def next(self, done: Callable[[int | None], None]) -> None:
        """Call `done` with a new producer id, now or when a block is granted; with None if no block is granted."""
        producer_id = next(self._block, None)
        if producer_id is not None:
            done(producer_id)
            return
        if len(self._waiting) >= MAX_WAITING:
            done(None)
            return
        self._waiting.append(done)
        if len(self._waiting) == 1:
            decide = partial(allocate_producer_ids, count=self._block_size)
            self._store.submit(decide, self._granted, self._refused)

    def _granted(self, block: range) -> None:
        self._block = iter(block)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            self.next(done)

    def _refused(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(None)


def handle(producer_ids: ProducerIds, ctx: RequestContext, request: InitProducerIdRequest, reply: Reply) -> None:
    """Answer with a new producer id and epoch 0, even if the producer has an id already."""
    if request.transactional_id is not None:
        reply(error_response(request, ErrorCode.INVALID_REQUEST))
        return

    def answer(producer_id: int | None) -> None:
        if producer_id is None:
            # Retriable: the store is overloaded or this broker is stopping; another broker can answer.
            reply(error_response(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    producer_ids.next(answer)


def error_response(request: InitProducerIdRequest, error_code: ErrorCode) -> InitProducerIdResponse:
    """Return the response to a request that failed with `error_code`."""
    return InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)


API: Final = ApiHandler(
    key=ApiKey.INIT_PRODUCER_ID,
    min_version=0,
    max_version=5,
    bind=lambda services: partial(handle, ProducerIds(services.admin.store)),
    error_response=error_response,
)
