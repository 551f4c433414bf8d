"""Operations on share groups (KIP-932), which their coordinators, or the leaders of their partitions, do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from purgatorio.admin.operations import groups
from purgatorio.admin.operations.declare import Answer, Limits, Operation, arg

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator

MAX_GROUPS: Final = 1_000
"""Share groups that one answer lists."""
_THE_GROUP: Final = "the group's id"


class ListShareGroups(Operation, http="GET /share-groups", command="share-groups list", answered_by="all brokers"):
    """Share groups by name: their share partitions, and how many records are in flight, acquired and done there."""

    limit: Annotated[int, Limits(ge=0, le=MAX_GROUPS)] = arg(f"how many, up to {MAX_GROUPS}", default=MAX_GROUPS)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.share_state import read_share_groups

        groups, count = read_share_groups(operator.cluster.brokers, self.limit)
        return {"share_groups": groups, "share_group_count": count}


class DescribeShareGroup(
    Operation, http="GET /share-groups/{id:path}", command="share-groups describe", answered_by="all brokers"
):
    """A share group's partitions with their records in flight: state, deliveries, which member has them, how long."""

    id: str = arg(_THE_GROUP, metavar="GROUP")

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.share_state import read_share_group

        return read_share_group(operator.cluster.brokers, self.id)


class ResetShareOffsets(
    groups.ResetOffsets, http="POST /share-groups/{id:path}/reset-offsets", answered_by="who knows"
):
    """Move the start offsets of a share group that has no members; what was done with later records is forgotten."""

    async def run(self, operator: Operator) -> Answer:
        return await self.reset(operator.share_groups.reset_offsets)


class DeleteShareGroup(
    groups.DeleteGroup,
    http="POST /share-groups/{id:path}/delete",
    command="share-groups delete",
    says="share group {id} is deleted",
    answered_by="who knows",
):
    """Delete a share group that has no members, with the state of its records."""

    async def run(self, operator: Operator) -> Answer:
        await operator.share_groups.delete(self.id)
        return {"group": self.id, "state": "deleted"}


class ExpireLocks(
    Operation,
    http="POST /share-groups/{id:path}/expire-locks",
    command="share-groups expire-locks",
    says="{expired:acquisition lock of group {id} has|acquisition locks of group {id} have} run out",
    answered_by="all brokers",
):
    """End the time of acquisition locks now: their records are available again, or given up after many deliveries."""

    id: str = arg(_THE_GROUP, metavar="GROUP")
    member: Annotated[str, Limits(max_length=2**15 - 1)] | None = arg(
        "only this member's, by its id; all if it is not given", default=None, metavar="ID"
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.share_state import locks_of

        expired = 0
        for broker, lock in list(locks_of(operator.cluster.brokers, self.id, self.member)):
            with broker.replicas.actions:
                expired += lock.expire()
        return {"id": self.id, "expired": expired}
