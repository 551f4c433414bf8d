"""Transactions that hang: open in a log, unknown to their coordinator, so that no marker will ever end them (KIP-664).

The last stable offset stands still where one hangs. They come from records that arrive after their transaction's marker
(KAFKA-12671), which leaders since KIP-890 prevent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from purgatorio.admin.operations.control.coordinators import answer_of, led
from purgatorio.admin.operations.control.transaction_control import (
    TRANSACTION_TIME_LIMIT_MS,
    TransactionControl,
)
from purgatorio.broker.cluster.errors import ClusterUnavailable, MayBeDone, NotThere, OperationRefused
from purgatorio.broker.log.producer_state import ProducerState
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.time.long_work import Steps
from purgatorio.broker.txn.marker_writer import Marker
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode

MAX_SUSPECTS: Final = 100_000
"""The most open transactions of logs of which is asked whether they hang."""


class Hanging(NamedTuple):
    """A transaction that is open in a log and that no coordinator has as open: no marker will ever end it.

    Attributes:
        producer_id, producer_epoch: those of its records.
        started_ms: wall time of the append of that offset.
        transactional_id: "" if the leader does not know it.
    """

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    started_ms: int
    transactional_id: str


class HangingTransactions:
    """Finds hanging transactions, and ends them."""

    def __init__(self, control: TransactionControl) -> None:
        self._cluster = control.cluster
        self._image = control.image
        self._control = control

    async def find(self) -> list[Hanging]:
        """Return the transactions that are open in the logs of leaders here and unknown to their coordinators.

        Raises:
            ClusterUnavailable: a coordinator does not run here, or loads its ids.
        """
        suspects: list[Hanging] = []
        hanging: list[Hanging] = []
        await self._cluster.work.take(self._find_open(suspects))
        known = await self._open_at_coordinators({each.producer_id for each in suspects})

        def steps() -> Steps:
            for suspect in suspects:
                if not _includes(known.get(suspect.producer_id), suspect.tp) and self._is_open(suspect):
                    hanging.append(suspect)
                yield 1

        await self._cluster.work.take(steps())
        return hanging

    async def abort(self, tp: TopicPartition, producer_id: int) -> Hanging:
        """Write an abort marker for a transaction that no coordinator knows.

        Raises:
            NotThere: the partition does not exist, or the producer has no open transaction in it.
            OperationRefused: a coordinator knows the transaction.
            ClusterUnavailable: the leader or a coordinator does not run here, or the marker could not be replicated.
        """
        self._open_transaction(tp, producer_id)
        known = await self._open_at_coordinators({producer_id})
        transaction = known.get(producer_id)
        if _includes(transaction, tp):
            assert transaction is not None
            name = transaction.transactional_id
            if transaction.pending is not None:
                raise ClusterUnavailable(f"the state of {name}, of producer {producer_id}, changes just now; try again")
            raise OperationRefused(
                f"the transaction of producer {producer_id} in {tp} does not hang: the coordinator of {name} knows it, "
                f"in state {transaction.value.state.state_name}; abort {name} instead"
            )
        found = self._open_transaction(tp, producer_id)
        broker, replica = self._led(tp)
        state = replica.log.producers.get(producer_id)
        assert state is not None
        # As by its coordinator, of which the leader keeps the epoch: 0 if it never had a marker of this producer.
        end = EndMarker(committed=False, coordinator_epoch=max(0, state.coordinator_epoch))
        marker = Marker(producer_id, found.producer_epoch, end, is_bumped=False)

        def write(done: Callable[[ErrorCode], None]) -> None:
            writer = broker.coordinators.marker_writer
            writer.write(marker, [tp], lambda _, error_code: done(error_code), client="operator")

        error_code = await answer_of(write, self._cluster.clock, TRANSACTION_TIME_LIMIT_MS, f"the leader of {tp}")
        if error_code:
            raise MayBeDone(f"the marker that aborts the transaction was not replicated: {error_code.name}")
        return found

    def _led(self, tp: TopicPartition) -> tuple[Broker, Partition]:
        """Return the leader of a partition.

        Raises:
            NotThere, ClusterUnavailable: there is none here.
        """
        image = self._image()
        if image.partition(*tp) is None:
            raise NotThere(f"there is no partition {tp}")
        return led(self._cluster, image, tp)

    def _open_transaction(self, tp: TopicPartition, producer_id: int) -> Hanging:
        _, replica = self._led(tp)
        state = replica.log.producers.get(producer_id)
        if state is None or state.transaction_start < 0:
            raise NotThere(f"producer {producer_id} has no open transaction in {tp}")
        return _transaction(tp, producer_id, state)

    def _is_open(self, suspect: Hanging) -> bool:
        try:
            return self._open_transaction(suspect.tp, suspect.producer_id) == suspect
        except OperationRefused:
            return False

    def _find_open(self, found: list[Hanging]) -> Steps:
        """Add the transactions that are open in the logs of leaders, up to `MAX_SUSPECTS`."""
        partitions = [each for broker in self._cluster.brokers for each in broker.replicas.partitions.values()]
        for partition in partitions:
            if partition.is_leader and partition.log.producers.open_count:
                for producer_id, state in partition.log.producers:
                    if state.transaction_start < 0 or len(found) == MAX_SUSPECTS:
                        break
                    found.append(_transaction(partition.tp, producer_id, state))
            yield 1

    async def _open_at_coordinators(self, producer_ids: set[int]) -> dict[int, Transaction]:
        """Return the transactional ids of producers.

        A producer id stays with its transactional id, so none of them can get another while this looks for it. The
        transactions are not copies: the caller sees their newest state.

        Raises:
            ClusterUnavailable: a coordinator does not run here, or loads its ids.
        """
        image = self._image()
        topic = image.topics.get(TRANSACTION_STATE_TOPIC)
        found: dict[int, Transaction] = {}
        if topic is None or not producer_ids:
            return found
        shards = list(self._control.shards())
        _check_all_active(shards, len(topic.partitions))

        def steps() -> Steps:
            for _, shard in shards:
                for transaction in list(shard.transactions.values()):
                    value = transaction.value
                    for producer_id in (value.producer_id, value.previous_id):
                        if producer_id in producer_ids:
                            found[producer_id] = transaction
                    yield 1

        await self._cluster.work.take(steps())
        _check_all_active(shards, len(topic.partitions))
        return found


def _transaction(tp: TopicPartition, producer_id: int, state: ProducerState) -> Hanging:
    start_offset, started_ms = state.transaction_start, state.transaction_start_ms
    return Hanging(tp, producer_id, state.epoch, start_offset, started_ms, state.transactional_id)


def _check_all_active(shards: Sequence[tuple[Broker, TransactionShard]], count: int) -> None:
    """Check that all shards are loaded, and still led by brokers that have their leases."""
    missing = count
    for broker, shard in shards:
        with suppress(PartitionError):
            broker.replicas.lookup.find(shard.tp).check_leader(-1)
            missing -= shard.is_active
    if missing:
        raise ClusterUnavailable(
            f"{missing} of {count} partitions of {TRANSACTION_STATE_TOPIC} have no coordinator here now, "
            "so that no transaction can be known to hang"
        )


def _includes(transaction: Transaction | None, tp: TopicPartition) -> bool:
    """Return whether a coordinator has an open transaction with this partition, or may have one in a moment."""
    if transaction is None:
        return False
    value = transaction.value
    return transaction.pending is not None or (not value.is_idle and tp in value.partitions)
