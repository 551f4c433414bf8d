"""The periodic work of a share coordinator: it deletes old records, and makes old snapshots anew.

Of each share partition the last snapshot is needed, with the updates after it. Records below the lowest of these
snapshots are deleted. One share partition without writes would keep all records after its snapshot: so a
snapshot that has become old is written again, at the log's end, if that lets records be deleted.

States of topics that do not exist any more are deleted, too. By then an image that was only late knows the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import NewRecord, ignore
from purgatorio.broker.replica.delayed_delete_records import DeleteRecordsResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.share.state.coordinator import ShareCoordinator, exists, snapshot_record, tombstone
from purgatorio.broker.share.state.kept_state import KeptState
from purgatorio.broker.share.state.services import ShareStateServices
from purgatorio.broker.share.state.shard import ShareShard
from purgatorio.broker.time.long_work import SLICE, Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey

logger = get_logger(__name__)

RECORD_COST: Final = 40
"""The cost of writing a record (see `LongWork`), besides a microsecond for each state batch of a snapshot. A batch
of records is written when its records cost a slice."""

RECORD_BYTES: Final = 40
"""The most bytes of a record in a batch, beside its key and value."""

BATCH_BYTES: Final = 100
"""The bytes of a batch beside its records, and more."""

_Change = tuple[NewRecord, Callable[[], None]]
"""A record, and what it does to the shard."""


class StateUpkeep:
    """The periodic work of one broker's share coordinator.

    Attributes:
        pruned_count: the records that were deleted since the broker started.
    """

    def __init__(self, services: ShareStateServices, replicas: ReplicaManager, coordinator: ShareCoordinator) -> None:
        self._services = services
        self._replicas = replicas
        self._coordinator = coordinator
        self.pruned_count = 0

    # --- old records ---

    def prune_steps(self) -> Steps:
        """Delete the states of topics that are gone, and the records that no state needs, in steps."""
        for shard in list(self._coordinator.shards):
            yield from self._delete_orphans(shard)
            yield from self._prune(shard)
            yield 0

    def _delete_orphans(self, shard: ShareShard) -> Steps:
        gone: list[SharePartitionKey] = []
        for key in list(shard.states):
            if not exists(self._services.image(), key):
                gone.append(key)
                if RECORD_COST * len(gone) >= SLICE:
                    self._delete(shard, gone)
                    gone = []
                    yield SLICE
            yield 1
        self._delete(shard, gone)

    def _delete(self, shard: ShareShard, keys: Sequence[SharePartitionKey]) -> None:
        self._write(shard, [(tombstone(key), partial(shard.remove, key)) for key in keys])

    def _prune(self, shard: ShareShard) -> Steps:
        """Delete what is below the lowest snapshot, once all snapshots are committed: one could be lost till then."""
        needed = self._coordinator.end_offset(shard)
        for state in list(shard.states.values()):
            needed = min(needed, state.offset)
            yield 1
        partition = self._replicas.lookup.known(shard.tp)
        if not shard.is_active or partition is None or needed <= partition.log.log_start_offset:
            return

        def committed(error_code: ErrorCode) -> None:
            if not error_code and shard.is_active:
                self._delete_before(shard, needed)

        self._services.log.when_committed(shard.tp, committed)

    def _delete_before(self, shard: ShareShard, offset: int) -> None:
        partition = self._replicas.lookup.known(shard.tp)
        start = offset if partition is None else partition.log.log_start_offset

        def done(results: Sequence[DeleteRecordsResult]) -> None:
            code = results[0].error_code
            if code:
                logger.warning("old states were not deleted", partition=str(shard.tp), error=ErrorCode(code).name)
            else:
                self.pruned_count += max(0, offset - start)

        self._replicas.delete_records(
            [(shard.tp, offset)], timeout_ms=self._services.config.write_timeout_ms, done=done, client=""
        )

    # --- old snapshots ---

    def snapshot_steps(self) -> Steps:
        """Make the snapshots anew that have become old, in steps."""
        for shard in list(self._coordinator.shards):
            yield from self._renew(shard)
            yield 0

    def _renew(self, shard: ShareShard) -> Steps:
        old_ms = self._services.clock.wall_ms() - self._services.config.snapshot_interval_ms
        needed = sum(1 + state.update_count for state in shard.states.values())
        lowest = min((state.offset for state in shard.states.values()), default=0)
        is_mostly_old = self._coordinator.end_offset(shard) - lowest >= 2 * needed
        chosen: list[SharePartitionKey] = []
        cost = 0
        for key, state in list(shard.states.items()):
            if state.written_ms <= old_ms and (state.update_count or is_mostly_old):
                chosen.append(key)
                cost += RECORD_COST + len(state.batches)
                if cost >= SLICE:
                    self._snapshot(shard, chosen)
                    yield cost
                    chosen, cost = [], 0
            yield 1
        self._snapshot(shard, chosen)

    def _snapshot(self, shard: ShareShard, keys: Sequence[SharePartitionKey]) -> None:
        """Write the states anew, as they are now."""
        now_ms = self._services.clock.wall_ms()
        offset = self._coordinator.end_offset(shard)
        changes: list[_Change] = []
        for key in keys:
            state = shard.states.get(key)
            if state is not None:
                snapshot = state.snapshot(created_ms=state.created_ms, written_ms=now_ms)
                put = partial(shard.put, key, KeptState(snapshot, offset))
                changes.append((snapshot_record(key, snapshot), put))
        self._write(shard, changes)

    def _write(self, shard: ShareShard, changes: Sequence[_Change]) -> None:
        """Write records in batches that the partition takes; what is refused is found again the next time."""
        max_bytes = self._services.log.max_batch_bytes(shard.tp)  # KAFKA-13099
        batch: list[_Change] = []
        size_bytes = BATCH_BYTES
        for record, change in changes:
            record_bytes = RECORD_BYTES + len(record.key) + len(record.value or b"")
            if batch and size_bytes + record_bytes > max_bytes:
                self._append(shard, batch)
                batch, size_bytes = [], BATCH_BYTES
            batch.append((record, change))
            size_bytes += record_bytes
        self._append(shard, batch)

    def _append(self, shard: ShareShard, batch: Sequence[_Change]) -> None:
        def applied() -> None:
            for _, change in batch:
                change()

        if batch and shard.is_active:
            self._services.log.append(shard.tp, [record for record, _ in batch], ignore, applied=applied)
