"""Deletes the transactional ids that were not used for long (transactional.id.expiration.ms), by tombstones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.txn.coordinator import TransactionCoordinator
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.shard import TransactionShard
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.broker.txn.transitions import Transitions, tombstone
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode

logger = get_logger(__name__)

TOMBSTONES_PER_STEP: Final = 200
"""The most tombstones of one batch, which a step writes: some milliseconds."""
CHECKS_PER_STEP: Final = 2_000
"""The most transactional ids that a step looks at."""
TOMBSTONE_BYTES: Final = 40
"""The most bytes of a tombstone in a batch, beside its key."""
BATCH_BYTES: Final = 100
"""The bytes of a batch beside its records, and more."""


class TransactionExpiry:
    """Deletes transactional ids without a transaction that were not used for long.

    Args:
        services: the settings, the clock.
        replicas: tells how large a batch may be.
        coordinator: the shards.
        transitions: writes the tombstones.

    Attributes:
        expiration_count: the transactional ids that expired.
    """

    def __init__(
        self,
        services: TransactionServices,
        replicas: ReplicaManager,
        coordinator: TransactionCoordinator,
        transitions: Transitions,
    ) -> None:
        self._services = services
        self._replicas = replicas
        self._coordinator = coordinator
        self._transitions = transitions
        self.expiration_count = 0

    def steps(self) -> Iterator[None]:
        """Look at all transactional ids once, and delete what has expired, in steps."""
        for shard in list(self._coordinator.shards):
            yield from self._shard_steps(shard)
            yield

    def _shard_steps(self, shard: TransactionShard) -> Iterator[None]:
        expired_ms = self._services.clock.wall_ms() - self._services.config.expiration_ms
        max_bytes = self._max_bytes(shard)
        batch: dict[str, NewRecord] = {}
        size_bytes = BATCH_BYTES
        for nth, transaction in enumerate(list(shard.transactions.values()), 1):
            if _may_expire(transaction, expired_ms):
                record = tombstone(transaction.transactional_id)
                record_bytes = len(record.key) + TOMBSTONE_BYTES
                if batch and (len(batch) >= TOMBSTONES_PER_STEP or size_bytes + record_bytes > max_bytes):
                    self._delete(shard, batch, expired_ms)
                    batch, size_bytes = {}, BATCH_BYTES
                    yield
                batch[transaction.transactional_id] = record
                size_bytes += record_bytes
            if nth % CHECKS_PER_STEP == 0:
                yield
        if batch:
            self._delete(shard, batch, expired_ms)

    def _max_bytes(self, shard: TransactionShard) -> int:
        """Return the size that one batch may have (KAFKA-13099)."""
        partition = self._replicas.lookup.known(shard.tp)
        return 0 if partition is None else partition.log.config.max_message_bytes

    def _delete(self, shard: TransactionShard, batch: dict[str, NewRecord], expired_ms: int) -> None:
        """Delete the ids of a batch that have not been used meanwhile."""
        if not shard.is_active:
            return
        found = {each: shard.transactions.get(each) for each in batch}
        records = {
            each: batch[each]
            for each, transaction in found.items()
            if transaction is not None and _may_expire(transaction, expired_ms)
        }

        def deleted(error_code: ErrorCode) -> None:
            if error_code:
                logger.warning("transactional ids did not expire", partition=str(shard.tp), error=error_code.name)
            else:
                self.expiration_count += len(records)

        if records:
            self._transitions.remove(shard, records, deleted)


def _may_expire(transaction: Transaction, expired_ms: int) -> bool:
    value = transaction.value
    return value.is_idle and transaction.pending is None and value.updated_ms <= expired_ms
