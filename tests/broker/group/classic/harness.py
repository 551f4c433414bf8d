"""Members of classic groups that talk to broker 1; the test sets the time, and plays the followers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.routing.request import RequestContext, Session
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from purgatorio.protocol.messages.leave_group import MemberIdentity
from purgatorio.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.broker.group.harness import PARTITION, GroupHarness

GROUP = "billing"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
OK = ErrorCode.NONE


def context(client_id: str, version: int) -> RequestContext:
    session = Session(connection_id="1", listener="PLAINTEXT", host="127.0.0.1", peer="127.0.0.1:5")
    return RequestContext(session, client_id, 11, version, 0)


@dataclass
class Answer:
    """The answer of one request, once it has come."""

    said: list[Any] = field(default_factory=list)

    def __call__(self, response: Any) -> None:
        assert not self.said, "answered twice"
        self.said.append(response)

    @property
    def is_parked(self) -> bool:
        return not self.said

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.only.error_code)

    @property
    def only(self) -> Any:
        (response,) = self.said
        return response


class Joined(Answer):
    """The answer of a join."""

    @property
    def response(self) -> JoinGroupResponse:
        response: JoinGroupResponse = self.only
        return response

    @property
    def member_id(self) -> str:
        return self.response.member_id

    @property
    def generation(self) -> int:
        return self.response.generation_id

    @property
    def listed(self) -> list[str]:
        return [member.member_id for member in self.response.members]


class Synced(Answer):
    """The answer of a sync."""

    @property
    def assignment(self) -> bytes:
        response: SyncGroupResponse = self.only
        return bytes(response.assignment)


class Clients(GroupHarness):
    """Broker 1 with classic groups, and the requests of their members."""

    @property
    def group(self) -> ClassicGroup:
        group = self.groups.coordinator.shard_of(GROUP).groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def has_group(self) -> bool:
        return GROUP in self.groups.coordinator.shard_of(GROUP).groups

    @property
    def state(self) -> str:
        return self.group.state_name

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        client_id: str = "app",
        version: int = 3,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"topics"),),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        group_id: str = GROUP,
    ) -> Joined:
        """Send a JoinGroup; version 3 needs no second join for the member id."""
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        joined = Joined()
        try:
            self.groups.classic.join(context(client_id, version), request, joined)
        except CoordinatorError as error:
            joined(JoinGroupResponse(error_code=error.error_code, member_id=member_id))
        return joined

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group_id: str = GROUP,
    ) -> Synced:
        """Send a SyncGroup; the leader's has the assignments."""
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
        )
        synced = Synced()
        try:
            self.groups.classic.sync(context("app", 5), request, synced)
        except CoordinatorError as error:
            synced(SyncGroupResponse(error_code=error.error_code))
        return synced

    def beat(
        self, member_id: str, generation: int, *, instance_id: str | None = None, group_id: str = GROUP
    ) -> ErrorCode:
        """Send a Heartbeat."""
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        try:
            self.groups.classic.heartbeat(request)
        except CoordinatorError as error:
            return error.error_code
        return OK

    def leave(self, *member_ids: str, instance_id: str | None = None, group_id: str = GROUP) -> list[ErrorCode]:
        """Send a LeaveGroup of these members; with an instance id, of that one."""
        leaving = [MemberIdentity(member_id=each, group_instance_id=instance_id) for each in member_ids]
        return self.groups.classic.leave(group_id, leaving)

    # --- the broker ---

    def replicate(self) -> None:
        """Let broker 2 fetch all that the partition holds."""
        partition = self.replicas.lookup.known(PARTITION)
        assert partition is not None
        self.follow((2, partition.log.log_end_offset), tp=PARTITION)

    def reload(self, leader_epoch: int = 9) -> None:
        """Elect this broker anew: it drops its groups, and loads them from the log."""
        replicas = tuple(self.image.topics[OFFSETS_TOPIC].partitions[0].replicas)
        self.elect(1, leader_epoch, replicas)
        self.work()
        if len(replicas) > 1:
            self.replicate()
            self.work()

    def with_config(self, **config: int) -> Clients:
        """Restart the coordinator of this broker with other settings: it loads the groups of the log."""
        for name, value in config.items():
            object.__setattr__(self.groups.config, name, value)  # frozen: a broker's settings come with its start
        self.reload()
        return self

    # --- shortcuts ---

    def gather(self, *member_ids: str) -> list[Joined]:
        """Let these members join together; "" is a new one. The group must be empty, or in a rebalance already."""
        return [self.join(each) for each in member_ids]

    def stable(self, count: int = 2, **options: Any) -> list[str]:
        """Make a stable group of so many dynamic members; returns their ids, the leader's first."""
        leader = self.join(**options)
        ids = [leader.member_id]
        joins = [self.join(**options) for _ in range(count - 1)]
        if joins:
            leader = self.join(ids[0], **options)
            ids += [joined.member_id for joined in joins]
        self.assign(leader)
        for member_id in ids[1:]:
            assert self.sync(member_id, leader.generation).error == OK
        assert self.state == "Stable"
        return ids

    def assign(self, leader: Joined) -> Synced:
        """Send the leader's sync: each member gets its own id as its assignment."""
        return self.sync(leader.member_id, leader.generation, {each: each.encode() for each in leader.listed})

    def stay_alive(self, member_ids: list[str], total_ms: int, generation: int | None = None) -> None:
        """Let time pass, with a heartbeat of each member every third of its session."""
        step_ms = SESSION_MS // 3
        for passed_ms in range(0, total_ms, step_ms):
            self.advance_ms(min(step_ms, total_ms - passed_ms))
            for member_id in member_ids:
                self.beat(member_id, self.group.generation if generation is None else generation)
