"""What the tests of logs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from purgatorio.broker.log.log import Log
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.log.compacting import NOW_MS


class BatchOf(Protocol):
    """Builds a batch as a producer would."""

    def __call__(
        self,
        *values: bytes | None,
        keys: tuple[bytes | None, ...] = ...,
        at_ms: int | tuple[int, ...] = ...,
        producer: tuple[int, int, int] | None = ...,
        compression: Compression = ...,
        **options: Any,
    ) -> bytes: ...


@pytest.fixture(scope="session")
def batch_of() -> BatchOf:
    """A function from values (and keys, times, a producer's id, epoch and sequence) to a batch."""

    def build(
        *values: bytes | None,
        keys: tuple[bytes | None, ...] = (),
        at_ms: int | tuple[int, ...] = 1000,
        producer: tuple[int, int, int] | None = None,
        compression: Compression = Compression.NONE,
        **options: Any,
    ) -> bytes:
        times = at_ms if isinstance(at_ms, tuple) else (at_ms,) * len(values)
        padded = keys or (None,) * len(values)
        base_offset = options.get("base_offset", 0)
        records = [
            Record(base_offset + n, time, key, value)
            for n, (time, key, value) in enumerate(zip(times, padded, values, strict=True))
        ]
        producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
        return build_batch(
            records,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            **options,
        )

    return build


@pytest.fixture
def put(batch_of: BatchOf) -> Callable[..., None]:
    """A function that appends one batch of key-value pairs."""

    def append(log: Log, *pairs: tuple[bytes, bytes | None], wall_ms: int = NOW_MS, **options: Any) -> None:
        batch = batch_of(*[value for _, value in pairs], keys=tuple(key for key, _ in pairs), **options)
        log.append_as_leader(batch, leader_epoch=0, wall_ms=wall_ms)

    return append
