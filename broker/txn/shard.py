"""One partition of ``__transaction_state`` that this broker leads, with its transactional ids."""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.coordinator.shard import Shard, ShardState
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.transaction import Transaction


class TransactionShard(Shard):
    """The transactional ids of one partition.

    The state is that of committed records: other coordinators' markers and clients must never see a result that could
    be lost.

    Attributes:
        transactions: by transactional id.
        unsure: called once all that is appended is committed: the transitions whose clients got an error although
            their records are in the log.
        is_awaited: whether the commit of some of them is being waited for.
    """

    __slots__ = ("is_awaited", "transactions", "unsure")

    def __init__(self, tp: TopicPartition, leader_epoch: int) -> None:
        super().__init__(tp, leader_epoch)
        self.transactions: dict[str, Transaction] = {}
        self.unsure: list[Callable[[], None]] = []
        self.is_awaited = False

    @property
    def is_kept(self) -> bool:
        """Whether this broker still coordinates the ids, and so may end transactions; also before requests come."""
        return self.state is not ShardState.UNLOADED
