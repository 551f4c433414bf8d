"""Operations that look at what waits, and at what has ended; and one that ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from purgatorio.admin.operations.declare import MAX_INT64, Answer, Limits, Operation, arg
from purgatorio.admin.operations.reading import OPERATIONS_PER_PURGATORY
from purgatorio.broker.causes.kinds import why_unknown
from purgatorio.broker.causes.words import MAX_SHOWN
from purgatorio.broker.cluster.errors import NotThere
from purgatorio.broker.log.topic_partition import TopicPartition

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator
    from purgatorio.admin.operations.reading.parked import ParkedRow

MAX_PARTITIONS: Final = 40
"""Partitions that one request may name."""
MAX_NAMES_CHARS: Final = MAX_PARTITIONS * 256
MAX_OPERATIONS: Final = 1000
"""Parked or finished operations that one request may ask for."""
_Count = Annotated[int, Limits(ge=0, le=MAX_OPERATIONS)]


class State(Operation, http="GET /state", answered_by="all brokers", shared_ms=200):
    """Brokers, purgatories, parked and finished operations, wheels, partitions; every list is bounded."""

    operations: _Count = arg(
        f"parked operations per purgatory, up to {MAX_OPERATIONS}", default=OPERATIONS_PER_PURGATORY
    )
    since_ms: Annotated[int, Limits(ge=0, le=2**63)] | None = arg(
        "only operations that finished since then, on the clock of now_ms", default=None
    )
    partitions: Annotated[str, Limits(max_length=MAX_NAMES_CHARS)] | None = arg(
        f"up to {MAX_PARTITIONS} partitions, with commas, instead of the most telling ones", default=None
    )

    def check(self) -> None:
        if self.partitions is not None:
            named_partitions(self.partitions)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading import state

        return state.read_state(
            operator.cluster,
            operator.control,
            operator.groups,
            operator.transactions,
            operations=self.operations,
            since_ms=self.since_ms,
            only=None if self.partitions is None else named_partitions(self.partitions),
        )


def named_partitions(names: str) -> list[TopicPartition]:
    """Return the partitions of a list with commas, such as "orders-0,orders-1".

    Raises:
        ValueError: there are too many, or one is no name of a partition.
    """
    found = []
    for name in filter(None, names.split(",")):
        topic, dash, index = name.rpartition("-")
        if not (dash and topic and index.isdecimal() and len(index) < 10):
            raise ValueError(f"{name[:MAX_SHOWN]} is no partition: give names such as orders-0,orders-1")
        found.append(TopicPartition(topic, int(index)))
    if len(found) > MAX_PARTITIONS:
        raise ValueError(f"{len(found)} partitions are too many: give up to {MAX_PARTITIONS}")
    return found


class ListParked(Operation, http="GET /parked", answered_by="all brokers"):
    """Operations that wait in purgatories, oldest first in each; sessions only of the purgatory that is asked for."""

    api: str | None = arg("only of this purgatory: Produce, Fetch, Rebalance …", default=None)
    topic: str | None = arg("only what watches this topic or partition, such as orders or orders-0", default=None)
    client: str | None = arg("only of this client id", default=None)
    operations: _Count = arg(f"how many of each purgatory, up to {MAX_OPERATIONS}", default=MAX_OPERATIONS)

    def check(self) -> None:
        if self.api is not None and (why := why_unknown(self.api)):
            raise ValueError(why)

    async def run(self, operator: Operator) -> Answer:
        return {"parked": [each.as_document() for each in await self.read(operator)]}

    async def read(self, operator: Operator) -> list[ParkedRow]:
        """Return the rows, with causes as objects and all keys."""
        from purgatorio.admin.operations.reading.parked import read_parked

        brokers, transactions = operator.cluster.brokers, operator.transactions
        return list(read_parked(brokers, transactions, self.api, self.topic, self.client, self.operations))

    @staticmethod
    def parsed(answer: Answer) -> list[ParkedRow]:
        """Return the rows of an answer."""
        from purgatorio.admin.operations.reading.parked import ParkedRow

        return [ParkedRow.of(each) for each in answer["parked"]]


class Matrix(Operation, http="GET /matrix", answered_by="all brokers", shared_ms=1_000):
    """Partitions and their replicas in few bytes: up to 1,000, those that are offline or wait first."""

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.matrix import read_matrix

        return read_matrix(operator.cluster, operator.control.image)


class Finished(Operation, http="GET /finished", answered_by="all brokers"):
    """The operations that ended last, newest first."""

    limit: _Count = arg(f"how many, up to {MAX_OPERATIONS}", default=100)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.state import read_finished

        cluster = operator.cluster
        return {"now_ms": cluster.clock.now_ms(), "finished": read_finished(cluster.brokers, self.limit)}


class ShowPurgatory(Operation, http="GET /brokers/{id}/purgatories/{name}", answered_by="its broker"):
    """One purgatory with its parked operations, oldest first."""

    id: int = arg("the broker's id")
    name: str = arg("the purgatory's name, such as Produce")
    operations: _Count = arg(f"how many, up to {MAX_OPERATIONS}", default=MAX_OPERATIONS)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.state import read_purgatory

        purgatory = operator.purgatory(self.id, self.name)
        now_ms = operator.cluster.clock.now_ms()
        return {"now_ms": now_ms, **read_purgatory(purgatory, operator.transactions, now_ms, self.operations)}


class Expire(
    Operation,
    http="POST /brokers/{id}/purgatories/{name}/operations/{operation}/expire",
    command="parked expire",
    says="{purgatory} operation {operation} of broker {broker} has expired",
    answered_by="its broker",
):
    """Let the deadline of a parked operation come now."""

    id: int = arg("its broker", metavar="BROKER")
    name: str = arg("its purgatory, as listed", metavar="PURGATORY")
    operation: Annotated[int, Limits(le=MAX_INT64)] = arg("its id, as listed", metavar="ID")

    async def run(self, operator: Operator) -> Answer:
        purgatory = operator.purgatory(self.id, self.name)
        found = purgatory.find(self.operation)
        if found is None or not found.expire():
            where = f"in purgatory {purgatory.name} of broker {self.id}"
            raise NotThere(f"there is no such operation parked {where}, or no longer")
        return {"broker": self.id, "purgatory": purgatory.name, "id": self.operation}
