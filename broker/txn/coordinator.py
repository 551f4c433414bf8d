"""The transactional ids that one broker coordinates: loaded when it is elected, dropped when it is elected no more.

The coordinator of a transactional id is the leader of the partition of ``__transaction_state`` that it is hashed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from purgatorio.broker.coordinator.shards import Shards
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.config import TRANSACTION_STATE_TOPIC
from purgatorio.broker.txn.loading import TransactionReplay
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.shard import TransactionShard

IDS_PER_STEP: Final = 50
"""The transactional ids whose timers or markers one step starts or stops: some milliseconds."""


class TransactionCoordinator:
    """The shards of one broker, by partition of ``__transaction_state``.

    Args:
        services: the log, the timer.
        replicas: this broker's replicas; tells which partitions it leads.
        completion: goes on with the transactions that were loaded.
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
