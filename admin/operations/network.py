"""Operations on the network between brokers.

The admin HTTP belongs to no broker: it answers whatever is paused or cut off, so that all of it can be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from purgatorio.admin.operations.declare import Answer, Int32, Limits, Operation, arg
from purgatorio.broker.cluster.errors import Invalid

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator


class ShowNetwork(Operation, http="GET /network", command="network show", answered_by="all brokers"):
    """The brokers that stand still, and the groups between which the network is cut."""

    async def run(self, operator: Operator) -> Answer:
        return operator.cluster.network.state()


class PartitionNetwork(Operation, http="POST /network/partition", answered_by="nobody"):
    """Cut the network between groups of brokers; the largest group keeps the metadata."""

    groups: Annotated[list[list[Int32]], Limits(max_length=1_000)] = arg("lists of broker ids, such as [[1], [2, 3]]")

    async def run(self, operator: Operator) -> Answer:
        try:
            operator.cluster.network.partition(self.groups)
        except ValueError as error:
            raise Invalid(str(error)) from None
        return operator.cluster.network.state()


class HealNetwork(Operation, http="POST /network/heal", command="network heal", answered_by="nobody"):
    """End the partition of the network."""

    async def run(self, operator: Operator) -> Answer:
        operator.cluster.network.heal()
        return operator.cluster.network.state()
