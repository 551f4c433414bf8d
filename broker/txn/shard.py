"""One partition of ``__transaction_state`` that this broker leads, with its transactional ids."""

from __future__ import annotations

from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.transaction import Transaction


class TransactionShard(Shard):
    """The transactional ids of one partition.

    The state is that of committed records: other coordinators' markers and clients must never see a result that could
    be lost.

    Attributes:
        transactions: by transactional id.
    """

    __slots__ = ("transactions",)

    def __init__(self, tp: TopicPartition, leader_epoch: int) -> None:
        super().__init__(tp, leader_epoch)
        self.transactions: dict[str, Transaction] = {}
