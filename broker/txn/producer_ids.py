"""Producer ids, unique in the cluster, from blocks that the metadata store grants."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from purgatorio.broker.metadata.controller import allocate_producer_ids
from purgatorio.broker.metadata.store import MetadataStore

BLOCK_SIZE: Final = 1000
"""The ids of a block (KAFKA-9813)."""

MAX_WAITING: Final = 10_000
"""The most requests that wait for a block of ids; further requests are refused with a retriable error."""


class ProducerIds:
    """Allocates producer ids.

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
