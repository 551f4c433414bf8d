"""Operations on consumer groups, which their coordinators in this process do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from purgatorio.admin.operations.declare import Answer, Int32, Int64, Limits, Operation, TopicName, arg
from purgatorio.admin.operations.topics import TO

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator

MAX_GROUPS: Final = 1_000
"""Groups that one answer lists."""
MEMBERS: Final = 1_000
"""Members of a group that one answer lists, unless more are asked for."""
MAX_MEMBERS: Final = 10_000
MAX_OFFSETS: Final = 2_000
"""Offsets of a group that one answer lists."""
_THE_GROUP: Final = "the group's id"


class ListGroups(Operation, http="GET /groups", command="groups list", answered_by="all brokers"):
    """Consumer groups by name: type, state, generation or epoch, coordinator, members, lag."""

    limit: Annotated[int, Limits(ge=0, le=MAX_GROUPS)] = arg(f"how many, up to {MAX_GROUPS}", default=MAX_GROUPS)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.group_state import read_groups

        groups, count, loading = read_groups(operator.groups, _ends(operator), self.limit)
        return {"groups": groups, "group_count": count, "loading_partition_count": loading}


class DescribeGroup(Operation, http="GET /groups/{id:path}", command="groups describe", answered_by="who knows"):
    """A group with its members, what each owns, and the offset and lag of each partition."""

    id: str = arg(_THE_GROUP, metavar="GROUP")
    members: Annotated[int, Limits(ge=0, le=MAX_MEMBERS)] = arg(
        f"how many members, up to {MAX_MEMBERS}", default=MEMBERS
    )
    offsets: Annotated[int, Limits(ge=0, le=MAX_OFFSETS)] = arg(
        f"offsets of how many partitions, up to {MAX_OFFSETS}", default=MAX_OFFSETS
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.group_state import read_group

        found = read_group(operator.groups, _ends(operator), self.id, members=self.members, offsets=self.offsets)
        if found is None:
            raise operator.groups.unknown(self.id)
        return found


class ResetOffsets(Operation, http="POST /groups/{id:path}/reset-offsets", answered_by="who knows"):
    """Commit offsets for a group that has no members; answers when they are replicated."""

    id: str = arg(_THE_GROUP)
    topic: TopicName = arg("the topic")
    partition: Int32 | None = arg("of that topic; all its partitions if it is not given", default=None)
    to: Literal["earliest", "latest"] | None = arg("earliest or latest, or", default=None)
    offset: Int64 | None = arg("an offset; the nearest one that the log has, or", default=None)
    timestamp_ms: Int64 | None = arg(
        "the first record with this timestamp or a later one; the end if there is none", default=None
    )

    def check(self) -> None:
        if sum(each is not None for each in (self.to, self.offset, self.timestamp_ms)) != 1:
            raise ValueError("give one of to, offset, timestamp_ms")

    async def run(self, operator: Operator) -> Answer:
        return await self.reset(operator.groups.reset_offsets)

    async def reset(self, reset_offsets: Callable[[str, str, int | None, Any], Awaitable[list[Any]]]) -> Answer:
        """Have offsets reset, by a method of the control of these groups, and return the answer."""
        from purgatorio.admin.operations.control.offset_resets import ResetTarget

        target = ResetTarget(self.to, self.offset, self.timestamp_ms)
        resets = await reset_offsets(self.id, self.topic, self.partition, target)
        return {"group": self.id, "offsets": [each._asdict() for each in resets]}


class DeleteGroup(
    Operation,
    http="POST /groups/{id:path}/delete",
    command="groups delete",
    says="group {id} is deleted",
    answered_by="who knows",
):
    """Delete a group that has no members, with its offsets."""

    id: str = arg(_THE_GROUP, metavar="GROUP")

    async def run(self, operator: Operator) -> Answer:
        await operator.groups.delete(self.id)
        return {"group": self.id, "state": "deleted"}


class ExpireMember(
    Operation,
    http="POST /groups/{id:path}/expire-member",
    command="groups expire-member",
    says="the session of member {member} of group {group} has ended",
    answered_by="who knows",
):
    """End the session of a member now, as if its heartbeats had stayed away."""

    id: str = arg(_THE_GROUP, metavar="GROUP")
    member: Annotated[str, Limits(max_length=2**15 - 1)] | None = arg(
        "its member id or its client id; the only member if it is not given", default=None, metavar="ID"
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control.group_control import expire_member

        return {"group": self.id, "member": expire_member(operator.cluster, self.id, self.member)}


class MoveGroupCoordinator(
    Operation,
    http="POST /groups/{id:path}/move-coordinator",
    command="groups move-coordinator",
    says="broker {coordinator} is the coordinator of group {id}",
):
    """Move the coordinator of a group, with all groups of its partition."""

    id: str = arg(_THE_GROUP, metavar="GROUP")
    to: Int32 | None = arg(TO, default=None, metavar="BROKER")

    async def run(self, operator: Operator) -> Answer:
        return {"coordinator": await operator.cluster.leadership.move_coordinator("group", self.id, self.to)}


def _ends(operator: Operator) -> Any:
    from purgatorio.admin.operations.reading.group_state import MAX_LAGS, Ends

    return Ends(operator.cluster.brokers, operator.image, MAX_LAGS)
