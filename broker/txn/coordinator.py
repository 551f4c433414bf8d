"""The transactional ids that one broker coordinates: loaded when it is elected, dropped when it is elected no more.

The coordinator of a transactional id is the leader of the partition of ``__transaction_state`` that it is hashed to. It
deletes by tombstones the ids that were not used for long (transactional.id.expiration.ms).
"""

from __future__ import annotations

from typing import Final

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.coordinator.shards import Shards
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.time.long_work import Steps
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import encode_key

logger = get_logger(__name__)

MAX_TOMBSTONES: Final = 200
"""The most tombstones of one batch."""

TOMBSTONE_COST: Final = 15
"""The cost of writing one (see `LongWork`)."""

TIMERS_COST: Final = 80
"""The cost of starting or stopping the timers or markers of a transactional id."""

TOMBSTONE_BYTES: Final = 40
"""The most bytes of a tombstone in a batch, beside its key."""

BATCH_BYTES: Final = 100
"""The bytes of a batch beside its records, and more."""


class TransactionCoordinator(Shards[TransactionShard]):
    """The shards of one broker, by partition of ``__transaction_state``.

    Attributes:
        expiration_count: the transactional ids that expired since the broker started.
    """

    def __init__(
        self,
        services: TransactionServices,
        replicas: ReplicaManager,
        completion: Completion,
    ) -> None:
        super().__init__(
            TRANSACTION_STATE_TOPIC, log=services.log, replicas=replicas, image=services.image, work=services.work
        )
        self._services = services
        self._completion = completion
        self.expiration_count = 0

    def new_shard(self, tp: TopicPartition, leader_epoch: int) -> TransactionShard:
        return TransactionShard(tp, leader_epoch)

    def start_steps(self, shard: TransactionShard) -> Steps:
        for transaction in list(shard.transactions.values()):
            if not shard.is_kept:
                return
            self._completion.follow(shard, transaction)
            yield TIMERS_COST

    def unload_steps(self, shard: TransactionShard) -> Steps:
        for transaction in list(shard.transactions.values()):
            self._completion.unload(shard, transaction)
            yield TIMERS_COST

    # --- expiry ---

    def expiry_steps(self) -> Steps:
        """Delete the transactional ids without a transaction that were not used for long, in steps."""
        for shard in list(self.shards):
            yield from self._expire(shard)
            yield 0

    def _expire(self, shard: TransactionShard) -> Steps:
        expired_ms = self._services.clock.wall_ms() - self._services.config.expiration_ms
        max_bytes = self._services.log.max_batch_bytes(shard.tp)  # KAFKA-13099
        batch: dict[str, NewRecord] = {}
        size_bytes = BATCH_BYTES
        for transaction in list(shard.transactions.values()):
            if _may_expire(transaction, expired_ms):
                record = NewRecord(encode_key(transaction.transactional_id), None)
                record_bytes = len(record.key) + TOMBSTONE_BYTES
                if batch and (len(batch) >= MAX_TOMBSTONES or size_bytes + record_bytes > max_bytes):
                    self._delete(shard, batch, expired_ms)
                    yield TOMBSTONE_COST * len(batch)
                    batch, size_bytes = {}, BATCH_BYTES
                batch[transaction.transactional_id] = record
                size_bytes += record_bytes
            yield 1
        if batch:
            self._delete(shard, batch, expired_ms)

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
            self._completion.remove(shard, records, deleted)


def _may_expire(transaction: Transaction, expired_ms: int) -> bool:
    value = transaction.value
    return value.is_idle and transaction.pending is None and value.updated_ms <= expired_ms
