"""Operations on transactions, which their coordinators in this process do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from purgatorio.admin.operations.declare import MAX_INT64, Answer, Int32, Int64, Limits, Operation, TopicName, arg
from purgatorio.admin.operations.topics import TO

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator

MAX_TRANSACTIONS: Final = 1_000
"""Transactions that one answer lists."""
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
"""The states by which transactions are listed; a producer id that waits for its first transaction is Empty."""
_THE_ID: Final = "the transactional id"


class ListTransactions(Operation, http="GET /transactions", answered_by="all brokers"):
    """Transactional ids with their transactions: state, producer, times, coordinator; the oldest open first."""

    limit: Annotated[int, Limits(ge=0, le=MAX_TRANSACTIONS)] = arg(
        f"how many, up to {MAX_TRANSACTIONS}", default=MAX_TRANSACTIONS
    )
    state: str | None = arg(f"only those in this state: {', '.join(STATES)}", default=None)
    producer_id: Annotated[int, Limits(ge=0, le=MAX_INT64)] = arg("only this producer's", default=-1)
    open_longer_than_ms: Annotated[int, Limits(ge=0, le=MAX_INT64)] = arg(
        "only those that are open, or being ended, for longer", default=-1
    )

    def check(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise ValueError(f"state must be one of {', '.join(STATES)}")

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.transaction_state import Wanted, read_transactions

        latest_ms = operator.cluster.clock.wall_ms() - self.open_longer_than_ms
        wanted = Wanted(self.state, self.producer_id, None if self.open_longer_than_ms < 0 else latest_ms)
        rows, count, loading = await read_transactions(operator.transactions, self.limit, wanted.has)
        return {"transactions": rows, "transaction_count": count, "loading_partition_count": loading}


class DescribeTransaction(Operation, http="GET /transactions/{id:path}", answered_by="who knows"):
    """A transactional id, with the partitions of its transaction and the end markers that are missing."""

    id: str = arg(_THE_ID)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.transaction_state import read_transaction

        return read_transaction(operator.transactions, operator.image, self.id)


class AbortTransaction(Operation, http="POST /transactions/{id:path}/abort", answered_by="who knows"):
    """Abort the open transaction of a transactional id, and fence its producer."""

    id: str = arg(_THE_ID)

    async def run(self, operator: Operator) -> Answer:
        producer = await operator.transactions.abort(self.id)
        return {"id": self.id, "state": "aborted", **producer._asdict()}


class ExpireTransaction(Operation, http="POST /transactions/{id:path}/expire", answered_by="who knows"):
    """End the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it."""

    id: str = arg(_THE_ID)

    async def run(self, operator: Operator) -> Answer:
        operator.transactions.expire(self.id)
        return {"id": self.id, "state": "expired"}


class MoveTransactionCoordinator(
    Operation,
    http="POST /transactions/{id:path}/move-coordinator",
    command="txn move-coordinator",
    says="broker {coordinator} is the coordinator of {id}",
):
    """Move the coordinator of a transactional id, with all ids of its partition."""

    id: str = arg(_THE_ID)
    to: Int32 | None = arg(TO, default=None, metavar="BROKER")

    async def run(self, operator: Operator) -> Answer:
        return {"coordinator": await operator.cluster.leadership.move_coordinator("transaction", self.id, self.to)}


class ListHangingTransactions(Operation, http="GET /hanging-transactions", answered_by="nobody"):
    """Transactions that are open in a log, and that no coordinator has as open."""

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.transaction_state import read_hanging

        now_ms = operator.cluster.clock.wall_ms()
        found = await operator.hanging.find()
        rows = [read_hanging(each, now_ms) for each in found[:MAX_TRANSACTIONS]]
        return {"transactions": rows, "transaction_count": len(found), "loading_partition_count": 0}


class AbortHangingTransaction(Operation, http="POST /hanging-transactions/abort", answered_by="nobody"):
    """Write the abort marker of a hanging transaction; refused if a coordinator knows the transaction."""

    topic: TopicName = arg("the topic")
    partition: Int32 = arg("its partition")
    producer_id: Int64 = arg("the producer of its records")

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.broker.log.topic_partition import TopicPartition

        ended = await operator.hanging.abort(TopicPartition(self.topic, self.partition), self.producer_id)
        where = {"topic": self.topic, "partition": self.partition}
        return {**where, "producer_id": ended.producer_id, "state": "aborted"}
