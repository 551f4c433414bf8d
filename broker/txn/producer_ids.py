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
    """Allocates producer ids."""

    def __init__(self, store: MetadataStore, block_size: int = BLOCK_SIZE) -> None:
        self._store = store
        self._block_size = block_size
        self._ask_at = block_size // 10
        self._block = range(0)
        self._ahead = range(0)
        self._is_asking = False
        self._waiting: list[Callable[[int | None], None]] = []

    def next(self, done: Callable[[int | None], None]) -> None:
        """Call `done` with a new producer id, now or when a block is granted; with None if no block is granted.

        The next block is asked for when nine tenths of one are used, so that few requests wait for it.
        """
        if not self._block:
            self._block, self._ahead = self._ahead, range(0)
        if self._block:
            producer_id, self._block = self._block[0], self._block[1:]
            if len(self._block) <= self._ask_at and not self._ahead:
                self._ask()
            done(producer_id)
        elif len(self._waiting) >= MAX_WAITING:
            done(None)
        else:
            self._waiting.append(done)
            self._ask()

    def _ask(self) -> None:
        """Ask for a block, unless that is under way."""
        if not self._is_asking:
            self._is_asking = True
            self._store.submit(partial(allocate_producer_ids, count=self._block_size), self._granted, self._refused)

    def _granted(self, block: range) -> None:
        self._is_asking = False
        self._ahead = block
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            self.next(done)

    def _refused(self, error: Exception) -> None:
        self._is_asking = False
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(None)
