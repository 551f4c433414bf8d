"""The transactional ids that one broker coordinates: loaded when it is elected, dropped when it is elected no more.

The coordinator of a transactional id is the leader of the partition of ``__transaction_state`` that it is hashed to. It
deletes by tombstones the ids that were not used for long (transactional.id.expiration.ms).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.coordinator.shards import Shards
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.broker.txn.transitions import Transitions, tombstone
from purgatorio.broker.txn.values import read_value
from purgatorio.logger import get_logger
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import BatchHeader
from purgatorio.protocol.transaction_state import decode_key, decode_value

logger = get_logger(__name__)

IDS_PER_STEP: Final = 50
"""The transactional ids whose timers or markers one step starts or stops: some milliseconds."""

RECORD_WORK: Final = 5
"""The work of a record, in the unit of `WORK_PER_STEP`, beside its partitions."""

PARTITIONS_PER_WORK: Final = 5
"""The partitions of a record that count as 1."""

TOMBSTONES_PER_STEP: Final = 200
"""The most tombstones of one batch, which a step writes: some milliseconds."""

CHECKS_PER_STEP: Final = 2_000
"""The most transactional ids that a step looks at."""

TOMBSTONE_BYTES: Final = 40
"""The most bytes of a tombstone in a batch, beside its key."""

BATCH_BYTES: Final = 100
"""The bytes of a batch beside its records, and more."""


class TransactionReplay:
    """Applies records to one shard; the last of each transactional id counts. Unknown types are skipped (KIP-915)."""

    def __init__(self, shard: TransactionShard) -> None:
        self._shard = shard

    def record(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        """Apply one record; returns its work.

        Raises:
            DecodeError: it is malformed.
        """
        transactional_id = None if key is None else decode_key(key)
        if transactional_id is None:
            return 1
        logged = decode_value(value)
        if logged is None:
            self._shard.transactions.pop(transactional_id, None)
            return 1
        read = read_value(logged)
        self._shard.transactions[transactional_id] = Transaction(transactional_id, read)
        return RECORD_WORK + len(read.partitions) // PARTITIONS_PER_WORK

    def ended(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Skip a marker: no client writes to this topic in a transaction."""


class TransactionCoordinator:
    """The shards of one broker, by partition of ``__transaction_state``.

    Args:
        wake: called when there is something to do; then `steps` is to be run.
    """

    def __init__(
        self,
        services: TransactionServices,
        replicas: ReplicaManager,
        completion: Completion,
        *,
        wake: Callable[[], None],
    ) -> None:
        self._completion = completion
        self._shards = Shards(
            TRANSACTION_STATE_TOPIC,
            self,
            log=services.log,
            replicas=replicas,
            image=services.image,
            wake=wake,
        )
        self.steps = self._shards.steps
        self.shard_of = self._shards.shard_of

    @property
    def shards(self) -> Iterable[TransactionShard]:
        """The shards of the partitions that this broker leads, in any state."""
        return self._shards

    # --- what `Shards` asks of its keeper ---

    def new_shard(self, tp: TopicPartition, leader_epoch: int) -> TransactionShard:
        """Return a shard without transactional ids."""
        return TransactionShard(tp, leader_epoch)

    def replay(self, shard: TransactionShard) -> TransactionReplay:
        """Return what applies the records of the log to the shard."""
        return TransactionReplay(shard)

    def start_steps(self, shard: TransactionShard) -> Iterator[None]:
        """Time the open transactions, and send the markers of decided ones, in steps."""
        for nth, transaction in enumerate(list(shard.transactions.values()), 1):
            if not shard.is_kept:
                return
            self._completion.follow(shard, transaction)
            if nth % IDS_PER_STEP == 0:
                yield

    def unload_steps(self, shard: TransactionShard) -> Iterator[None]:
        """Stop timers and markers, and refuse parked requests, in steps."""
        for nth, transaction in enumerate(list(shard.transactions.values()), 1):
            self._completion.unload(shard, transaction)
            if nth % IDS_PER_STEP == 0:
                yield


class TransactionExpiry:
    """Deletes transactional ids without a transaction that were not used for long.

    Args:
        replicas: tells how large a batch may be.
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
