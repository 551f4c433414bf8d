"""The batches of what was read of a log, and memory for batches in which each takes its own bytes only."""

from __future__ import annotations

from collections.abc import Iterable

from purgatorio.broker.log.arena import Arena, Block
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.records import iter_batches


def batches_of(parts: Iterable[Buffer]) -> list[bytes]:
    """Return each batch of some runs of whole batches."""
    return [bytes(batch) for part in parts for _, batch in iter_batches(part)]


class ExactArena(Arena):
    """Memory whose blocks are as large as the batch for which they are made, so that nothing is counted besides."""

    def block(self, size_bytes: int, held_bytes: int) -> Block:
        return Block(bytearray(size_bytes), size_bytes, None)
