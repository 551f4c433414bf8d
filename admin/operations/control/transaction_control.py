"""Aborts transactions through their coordinators, which must run in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from purgatorio.admin.operations.control.coordinators import answer_of, coordinator_of, led_shards
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.errors import ClusterUnavailable, MayBeDone, NotThere, OperationRefused
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.txn.producers import NO_PRODUCER, ProducerIdAndEpoch
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState

TRANSACTION_TIME_LIMIT_MS: Final = 10_000
"""Time for the abort of a transaction; more than a coordinator takes to answer InitProducerId."""


class TransactionControl:
    """Finds transactions by their coordinator, and aborts them."""

    def __init__(self, cluster: BrokerCluster, image: Callable[[], ClusterImage]) -> None:
        self.cluster = cluster
        self.image = image

    def shards(self) -> Iterator[tuple[Broker, TransactionShard]]:
        """Return the partitions of transactional ids with their coordinators; loading ones too, but not former ones."""
        return led_shards(self.cluster.brokers, self.image(), lambda broker: broker.transactions.coordinator.shards)

    def find(self, transactional_id: str) -> tuple[Broker, Transaction]:
        """Return a transactional id with its coordinator.

        Raises:
            ClusterUnavailable: the coordinator does not run, or loads its ids.
            NotThere: there is no such transactional id.
        """
        found = coordinator_of(
            self.cluster,
            self.image(),
            TRANSACTION_STATE_TOPIC,
            "transactional id",
            transactional_id,
            lambda broker: broker.transactions.coordinator.shard_of(transactional_id),
        )
        transaction = None if found is None else found[1].transactions.get(transactional_id)
        if found is None or transaction is None:
            raise NotThere(f"there is no transactional id {transactional_id}")
        return found[0], transaction

    # --- abort through the coordinator ---

    async def abort(self, transactional_id: str) -> ProducerIdAndEpoch:
        """Abort the open transaction of a transactional id, and fence its producer, as a new producer would do.

        Returns:
            The identity that the producer would have now; lower epochs are fenced.

        Raises:
            NotThere: there is no such transactional id.
            OperationRefused: it has no open transaction.
            ClusterUnavailable: the coordinator does not run, or the transaction could not be aborted in time; it may
                still be.
        """
        broker, transaction = self.find(transactional_id)
        value = transaction.value
        state = value.state.state_name
        if value.is_decided:
            raise OperationRefused(
                f"the transaction of {transactional_id} is being ended already: its state is {state}"
            )
        # One that begins just now counts; without one, a producer would be fenced that has done nothing.
        if TransactionState.ONGOING not in (value.state, transaction.pending):
            raise OperationRefused(f"{transactional_id} has no open transaction: its state is {state}")
        producers = broker.transactions.producers
        timeout_ms = min(value.timeout_ms, broker.transactions.config.max_timeout_ms)

        def init(done: Callable[[tuple[ErrorCode, ProducerIdAndEpoch]], None]) -> None:
            producers.init(
                transactional_id,
                timeout_ms,
                NO_PRODUCER,
                lambda error_code, producer: done((error_code, producer)),
                client="operator",
            )

        what = f"the coordinator of {transactional_id}"
        error_code, producer = await answer_of(init, self.cluster.clock, TRANSACTION_TIME_LIMIT_MS, what)
        if error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            waits_for = in_words([broker.transactions.completion.cause(transaction)])
            raise MayBeDone(f"{transactional_id} is not aborted yet, but will be: {waits_for}")
        if error_code:
            raise ClusterUnavailable(f"{what} could not abort its transaction: {error_code.name}")
        return producer

    def expire(self, transactional_id: str) -> None:
        """End the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it.

        Raises:
            NotThere: there is no such transactional id.
            OperationRefused: it has no open transaction.
            ClusterUnavailable: the coordinator does not run, or loads its ids.
        """
        _, transaction = self.find(transactional_id)
        if transaction.timeout is None or not transaction.timeout.expire():
            raise OperationRefused(f"{transactional_id} has no open transaction")
