"""The requests of the JSON API about consumer groups.

They are answered by the groups' coordinators in this process. The status is 404 if the group, topic or partition does
not exist, 409 if the group has members, and 503 if the coordinator does not run, or loads its groups.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.operator import ClusterControl, GroupControl, Target
from purgatorio.broker.operator.sessions import expire_member
from purgatorio.broker.web.group_state import MAX_LAGS, Ends, read_group, read_groups
from purgatorio.broker.web.requests import Body, Nothing, int_param, json_response, read_change
from purgatorio.broker.web.views import ClusterView

MAX_GROUPS: Final = 1_000
"""Groups that one response lists."""
_MAX_INT64: Final = 2**63 - 1


class ResetOffsets(Body):
    """Which offsets of a group are reset, and where to: one of `to`, `offset`, `timestamp_ms`.

    Attributes:
        topic: the topic.
        partition: a partition of it; all its partitions if it is not given.
        to: the start of the logs, or their high watermarks.
        offset: this offset, or the nearest one that a log has.
        timestamp_ms: the first record with this timestamp or a later one; the high watermark if there is none.
    """

    topic: Annotated[str, Field(min_length=1, max_length=249)]
    partition: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    to: Literal["earliest", "latest"] | None = None
    offset: Annotated[int, Field(ge=0, le=_MAX_INT64)] | None = None
    timestamp_ms: Annotated[int, Field(ge=0, le=_MAX_INT64)] | None = None

    @model_validator(mode="after")
    def _has_one_target(self) -> Self:
        if sum(each is not None for each in (self.to, self.offset, self.timestamp_ms)) != 1:
            raise ValueError("give one of to, offset, timestamp_ms")
        return self

    @property
    def target(self) -> Target:
        """Where to."""
        if self.to is not None:
            return Target(self.to)
        if self.offset is not None:
            return Target("offset", self.offset)
        assert self.timestamp_ms is not None
        return Target("timestamp", self.timestamp_ms)


class ExpireMember(Body):
    """The member whose session ends.

    Attributes:
        member: its member id or its client id; the only member if it is not given.
    """

    member: Annotated[str, Field(max_length=2**15 - 1)] | None = None


class GroupsApi:
    """The handlers.

    Args:
        cluster: the cluster of the brokers.
        control: knows the newest metadata.
        groups: finds and changes groups.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, control: ClusterControl, groups: GroupControl, allowed_host: str) -> None:
        self._cluster = cluster
        self._control = control
        self._groups = groups
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes. A group id may contain anything, slashes too."""
        group = "/api/v1/groups/{group_id:path}"
        return [
            Route("/api/v1/groups", self.groups),
            Route(f"{group}/reset-offsets", self.reset_offsets, methods=["POST"]),
            Route(f"{group}/delete", self.delete, methods=["POST"]),
            Route(f"{group}/expire-member", self.expire_member, methods=["POST"]),
            Route(group, self.group),
        ]

    async def groups(self, request: Request) -> Response:
        """``GET /api/v1/groups?limit=1000``: the groups of all coordinators, by name."""
        limit = int_param(request, "limit", MAX_GROUPS, most=MAX_GROUPS)
        groups, count, loading = read_groups(self._groups, self._ends(), limit)
        return json_response({"groups": groups, "group_count": count, "loading_partition_count": loading})

    async def group(self, request: Request) -> Response:
        """``GET /api/v1/groups/{id}``: a group with its members, its committed offsets and their lags."""
        group_id = request.path_params["group_id"]
        found = read_group(self._groups, self._ends(), group_id, self._cluster.clock.now_ms())
        if found is None:
            raise self._groups.unknown(group_id)
        return json_response(found)

    async def reset_offsets(self, request: Request) -> Response:
        """``POST /api/v1/groups/{id}/reset-offsets`` with a `ResetOffsets`; the group must have no members."""
        wanted = await read_change(request, ResetOffsets, self._allowed_host, self._cluster.clock)
        group_id = request.path_params["group_id"]
        resets = await self._groups.reset_offsets(group_id, wanted.topic, wanted.partition, wanted.target)
        return json_response({"group": group_id, "offsets": [each._asdict() for each in resets]})

    async def delete(self, request: Request) -> Response:
        """``POST /api/v1/groups/{id}/delete`` with ``{}``: delete a group without members, with its offsets."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        group_id = request.path_params["group_id"]
        await self._groups.delete(group_id)
        return json_response({"group": group_id, "state": "deleted"})

    async def expire_member(self, request: Request) -> Response:
        """``POST /api/v1/groups/{id}/expire-member`` with an `ExpireMember`: end a member's session now."""
        wanted = await read_change(request, ExpireMember, self._allowed_host, self._cluster.clock)
        group_id = request.path_params["group_id"]
        return json_response({"group": group_id, "member": expire_member(self._cluster, group_id, wanted.member)})

    def _ends(self) -> Ends:
        return Ends(self._cluster.brokers, self._control.image, MAX_LAGS)


GROUP_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {
        "method": "GET",
        "path": "/api/v1/groups",
        "does": "consumer groups by name: type, state, generation or epoch, coordinator, members, lag",
        "query": {"limit": f"how many, up to {MAX_GROUPS}"},
    },
    {
        "method": "GET",
        "path": "/api/v1/groups/{id}",
        "does": "a group with its members, what each owns, and the offset and lag of each partition",
    },
    {
        "method": "POST",
        "path": "/api/v1/groups/{id}/reset-offsets",
        "does": "commit offsets for a group that has no members; answers when they are replicated",
        "body": {
            "topic": "the topic",
            "partition": "of that topic; all its partitions if it is not given",
            "to": "earliest or latest, or",
            "offset": "an offset; the nearest one that the log has, or",
            "timestamp_ms": "the first record with this timestamp or a later one; the end if there is none",
        },
    },
    {
        "method": "POST",
        "path": "/api/v1/groups/{id}/delete",
        "does": "delete a group that has no members, with its offsets",
        "body": {},
    },
    {
        "method": "POST",
        "path": "/api/v1/groups/{id}/expire-member",
        "does": "end the session of a member now, as if its heartbeats had stayed away",
        "body": {"member": "its member id or its client id; the only member if it is not given"},
    },
]
