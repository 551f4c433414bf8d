"""Stores for tests, and logs that are copied to them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.copying import SegmentCopier
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.store import MemoryStore, StoredObject
from purgatorio.broker.tier.traffic import TierTraffic
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory.clock import ManualClock

_ids = itertools.count(1)
FOLDER = "cluster/00/0/"
TIERED = LogConfig(remote_storage_enable=True, segment_bytes=200, retention_ms=-1)


class TestStore(MemoryStore):
    """A store that records its calls but those about claims, and fails or waits as a test says.

    Attributes:
        calls: each with its kind and the end of the object's name.
        troubles: what the next calls of a kind raise, or None, in their order.
        gate: gets wait until it is set.
    """

    __test__ = False

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.troubles: dict[str, list[Exception | None]] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    def _called(self, kind: str, key: str) -> None:
        if "/claims/" in key:
            return
        self.calls.append((kind, key.rpartition(".")[2]))
        troubles = self.troubles.get(kind)
        trouble = troubles.pop(0) if troubles else None
        if trouble is not None:
            raise trouble

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        self._called("put", key)
        await super().put(key, parts, create=create)

    async def get(self, key: str, start: int, length: int) -> Buffer:
        self._called("get", key)
        await self.gate.wait()
        return await super().get(key, start, length)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        self._called("list", prefix)
        return await super().list(prefix)

    async def delete(self, key: str) -> None:
        self._called("delete", key)
        await super().delete(key)

    def key(self, end: str) -> str:
        """The name of the first object with this end."""
        return next(key for key in sorted(self.objects) if key.endswith(end))


def record_batch(at_ms: int, *, value: bytes = b"value" * 4) -> bytes:
    return build_batch([Record(0, at_ms, None, value, ())])


def log_of(count: int, *, config: LogConfig = TIERED, epochs: Sequence[int] = (0,)) -> Log:
    """A log of so many committed batches of one record, two of which fill a segment; in these epochs by turns."""
    log = Log(config)
    for number in range(count):
        epoch = epochs[number * len(epochs) // count]
        log.append_as_leader(record_batch(1_000 + number), leader_epoch=epoch, wall_ms=1_000 + number)
    log.commit_to(log.log_end_offset)
    return log


def copier_to(
    store: MemoryStore, clock: ManualClock | None = None, traffic: TierTraffic | None = None
) -> SegmentCopier:
    """A copier whose ids are counted."""
    clock = clock or ManualClock()
    claim = StoreClaim(store, clock, "cluster", "owner")
    return SegmentCopier(store, clock, lambda size: next(_ids).to_bytes(size, "big"), claim, traffic)


async def copied(
    log: Log, store: MemoryStore, *, remote: RemoteLog | None = None, still_leads: Callable[[], bool] = lambda: True
) -> RemoteLog:
    """Copy all segments of a log that can be copied."""
    remote = remote or RemoteLog(FOLDER)
    copier = copier_to(store)
    while await copier.copy_next(log, remote, log.epochs.latest_epoch, still_leads):
        pass
    return remote
