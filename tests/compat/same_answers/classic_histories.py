"""Histories of classic groups: wrong requests, and short lives of members."""

from __future__ import annotations

import dataclasses

from purgatorio.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.describe_groups import DescribeGroupsRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequestProtocol
from purgatorio.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.compat.same_answers.talk import Answer, Talk, join_request

STATIC_MEMBERS_SINCE = 5


def coordinators(talk: Talk) -> None:
    """FindCoordinator for odd keys and key types, in all versions at once."""
    if talk.era:
        return
    for version in range(7):
        for key_type in range(-1, 5) if version else (0,):
            for key in ("some", ""):
                request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key, "other"])
                talk.elsewhere(f"type {key_type}, key {key!r}, version {version}", request, version)
        request = FindCoordinatorRequest(key="a", key_type=0, coordinator_keys=[])
        talk.elsewhere(f"no keys, version {version}", request, version)


def wrong_joins(talk: Talk) -> None:
    """Joins that are refused, of a group without members and of one with a member."""
    group = talk.group
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    talk.ask("empty group id", join_request(""))
    for timeout_ms in (-1, 0, 5_999, 1_800_001, 2**31 - 1):
        talk.ask(f"session timeout {timeout_ms}", join_request(group, session_timeout_ms=timeout_ms))
    talk.ask("unknown member, unknown group", join_request(group, member_id=talk.given("nobody")))
    talk.ask("no protocol", join_request(group, protocols=[]))
    talk.ask("no protocol type", join_request(group, protocol_type=""))
    talk.ask("rebalance timeout 0", join_request(talk.group + "-0", rebalance_timeout_ms=0))
    talk.ask("rebalance timeout -1", join_request(talk.group + "-1", rebalance_timeout_ms=-1))
    if talk.era >= STATIC_MEMBERS_SINCE:
        talk.ask("empty instance id", join_request(group + "-e", group_instance_id=""))
        stranger = join_request(group, member_id="nobody", group_instance_id="one")
        talk.ask("unknown instance", stranger)
    stable(talk)
    talk.ask("another type", join_request(group, protocol_type="connect"))
    talk.ask("no common protocol", join_request(group, protocols=[dataclasses.replace(protocols[0], name="other")]))
    talk.ask("no protocol beside a member", join_request(group, protocols=[]))
    talk.ask("no type beside a member", join_request(group, protocol_type=""))
    talk.ask("unknown member beside a member", join_request(group, member_id="nobody"))
    if talk.era >= STATIC_MEMBERS_SINCE:
        talk.ask("unknown instance beside a member", stranger)
    describe(talk, "after all")


def unknown_group(talk: Talk) -> None:
    """Requests about groups that do not exist, or have no name."""
    for name, group in (("unknown", talk.group), ("empty id", "")):
        member_id = talk.given("nobody")
        for generation in (-1, 0, 1):
            talk.ask(
                f"{name}, generation {generation}",
                HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id),
            )
            talk.ask(
                f"{name}, generation {generation}",
                SyncGroupRequest(group_id=group, generation_id=generation, member_id=member_id),
            )
        leave = LeaveGroupRequest(group_id=group, member_id=member_id, members=[MemberIdentity(member_id=member_id)])
        talk.ask(name, leave)
        talk.ask(f"{name}, no members", LeaveGroupRequest(group_id=group, member_id="", members=[]))
        instance = MemberIdentity(member_id="", group_instance_id="one")
        talk.ask(f"{name}, instance", LeaveGroupRequest(group_id=group, member_id="", members=[instance]))
        talk.ask(name, DescribeGroupsRequest(groups=[group]))
        talk.ask(
            f"{name}, operations", DescribeGroupsRequest(groups=[group, group], include_authorized_operations=True)
        )
        talk.ask(name, ConsumerGroupDescribeRequest(group_ids=[group]))
        talk.ask(name, DeleteGroupsRequest(groups_names=[group]))
        talk.ask(f"{name}, twice", DeleteGroupsRequest(groups_names=[group, group]))
    talk.ask("none", DescribeGroupsRequest(groups=[]))
    talk.ask("none", ConsumerGroupDescribeRequest(group_ids=[]))
    talk.ask("none", DeleteGroupsRequest(groups_names=[]))


def wrong_members(talk: Talk) -> None:
    """Requests of strangers, and of other generations, in a stable group."""
    group, stranger = talk.group, talk.given("nobody")
    joined = stable(talk)
    for name, member_id in (("member", joined.member_id), ("stranger", stranger), ("no id", "")):
        for generation in (-1, 0, 1, 2):
            step = f"{name}, generation {generation}"
            talk.ask(step, HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id))
            talk.ask(step, SyncGroupRequest(group_id=group, generation_id=generation, member_id=member_id))
    of_member = {"group_id": group, "generation_id": 1, "member_id": joined.member_id}
    if talk.era >= STATIC_MEMBERS_SINCE:
        talk.ask("unknown instance", HeartbeatRequest(**of_member, group_instance_id="one"))
        talk.ask("unknown instance", SyncGroupRequest(**of_member, group_instance_id="one"))
        talk.ask("wrong protocol", SyncGroupRequest(**of_member, protocol_type="consumer", protocol_name="other"))
        talk.ask("wrong type", SyncGroupRequest(**of_member, protocol_type="connect", protocol_name="range"))
        talk.ask("only the type", SyncGroupRequest(**of_member, protocol_type="consumer"))
        talk.ask("type and protocol", SyncGroupRequest(**of_member, protocol_type="consumer", protocol_name="range"))
    members = [MemberIdentity(member_id=stranger), MemberIdentity(member_id="", group_instance_id="one")]
    members.append(MemberIdentity(member_id=joined.member_id, group_instance_id="one"))
    members.append(MemberIdentity(member_id=""))
    talk.ask("strangers", LeaveGroupRequest(group_id=group, member_id=stranger, members=members))
    talk.ask("with members", DeleteGroupsRequest(groups_names=[group]))
    talk.ask("classic group", ConsumerGroupDescribeRequest(group_ids=[group]))
    describe(talk, "after all")


def one_life(talk: Talk) -> None:
    """A member joins, syncs, beats, joins again, and leaves; the group is deleted."""
    group = talk.group
    joined = talk.join("first", join_request(group))
    describe(talk, "before the sync")
    of_member = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    talk.ask("before the sync", HeartbeatRequest(**of_member))
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    assignments.append(SyncGroupRequestAssignment(member_id="nobody", assignment=b"nobody's"))
    kind = {"protocol_type": "consumer", "protocol_name": "range"}
    talk.ask("leader", SyncGroupRequest(**of_member, **kind, assignments=assignments))
    talk.ask("again", SyncGroupRequest(**of_member, **kind))
    talk.ask("stable", HeartbeatRequest(**of_member))
    describe(talk, "stable")
    again = talk.ask("leader joins again", join_request(group, member_id=joined.member_id))
    of_member["generation_id"] = again.generation_id
    talk.ask("old generation", HeartbeatRequest(**{**of_member, "generation_id": 1}))
    talk.ask("no assignment", SyncGroupRequest(**of_member, **kind))
    describe(talk, "second generation")
    me = [MemberIdentity(member_id=joined.member_id, reason="done")]
    talk.ask("done", LeaveGroupRequest(group_id=group, member_id=joined.member_id, members=me))
    talk.ask("gone", HeartbeatRequest(**of_member))
    talk.ask("gone", SyncGroupRequest(**of_member))
    talk.ask("twice", LeaveGroupRequest(group_id=group, member_id=joined.member_id, members=me))
    describe(talk, "empty")
    talk.ask("gone", join_request(group, member_id=joined.member_id))
    talk.join("another type in an empty group", join_request(group, protocol_type="connect"))
    describe(talk, "of another type")


def deleted(talk: Talk) -> None:
    """An empty group is deleted once, and then unknown."""
    joined = stable(talk)
    me = [MemberIdentity(member_id=joined.member_id)]
    talk.ask("done", LeaveGroupRequest(group_id=talk.group, member_id=joined.member_id, members=me))
    talk.ask("empty", DeleteGroupsRequest(groups_names=[talk.group]))
    talk.ask("again", DeleteGroupsRequest(groups_names=[talk.group]))
    describe(talk, "deleted")


def two_members(talk: Talk) -> None:
    """A second member joins while the first one is stable, and leaves again."""
    group = talk.group
    first = stable(talk)
    second_request = join_request(group)
    kind = {"protocol_type": "consumer", "protocol_name": "range"}
    if talk.era >= 4:
        answer = talk.ask("second, without an id", second_request)
        second_request = dataclasses.replace(second_request, member_id=answer.member_id)
    parked = talk.start("second", second_request)
    in_state(talk, "PreparingRebalance")
    of_first = {"group_id": group, "generation_id": 1, "member_id": first.member_id}
    talk.ask("first, rebalance", HeartbeatRequest(**of_first))
    talk.ask("first, wrong generation, rebalance", HeartbeatRequest(**{**of_first, "generation_id": 7}))
    talk.ask("first, rebalance", SyncGroupRequest(**of_first, **kind))
    again = talk.ask("first again", join_request(group, member_id=first.member_id))
    second = parked()
    describe(talk, "both joined")
    of_first["generation_id"] = again.generation_id
    of_second = {**of_first, "member_id": second.member_id}
    sync = talk.start("second", SyncGroupRequest(**of_second, **kind))
    both = (first.member_id, second.member_id)
    assignments = [SyncGroupRequestAssignment(member_id=each, assignment=bytes([at])) for at, each in enumerate(both)]
    talk.ask("first", SyncGroupRequest(**of_first, **kind, assignments=assignments))
    sync()
    describe(talk, "both stable")
    talk.ask("follower as before", join_request(group, member_id=second.member_id))
    talk.ask("follower beats", HeartbeatRequest(**of_second))
    members = [MemberIdentity(member_id=first.member_id), MemberIdentity(member_id="nobody")]
    talk.ask("first", LeaveGroupRequest(group_id=group, member_id=first.member_id, members=members))
    talk.ask("second learns it", HeartbeatRequest(**of_second))
    talk.ask("second alone", join_request(group, member_id=second.member_id))
    describe(talk, "second alone")


def static_members(talk: Talk) -> None:
    """A static member comes back with another id; its old self is fenced."""
    if talk.era < STATIC_MEMBERS_SINCE:
        return
    group = talk.group
    one = {"group_instance_id": "one"}
    joined = talk.join("static", join_request(group, **one))
    of_old = {"group_id": group, "generation_id": 1, "member_id": joined.member_id, **one}
    kind = {"protocol_type": "consumer", "protocol_name": "range"}
    mine = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    talk.ask("static", SyncGroupRequest(**of_old, **kind, assignments=mine))
    again = talk.join("comes back", join_request(group, **one))
    describe(talk, "came back")
    talk.ask("fenced", HeartbeatRequest(**of_old))
    talk.ask("fenced", SyncGroupRequest(**of_old, **kind))
    talk.ask("fenced", join_request(group, member_id=joined.member_id, **one))
    talk.ask("fenced", LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=joined.member_id, **one)]))
    of_new = {**of_old, "member_id": again.member_id}
    talk.ask("new", HeartbeatRequest(**of_new))
    talk.ask("new without instance", HeartbeatRequest(**{**of_new, "group_instance_id": None}))
    talk.ask("new", SyncGroupRequest(**of_new, **kind))
    more = [JoinGroupRequestProtocol(name="other", metadata=b"")]
    other = talk.join("back with other protocols", join_request(group, **one, protocols=more))
    describe(talk, "other protocols")
    talk.ask("old", HeartbeatRequest(**of_new))
    talk.ask("wrong instance", HeartbeatRequest(**{**of_new, "member_id": other.member_id, "group_instance_id": "two"}))
    removed = [MemberIdentity(member_id="", **one), MemberIdentity(member_id="", group_instance_id="two")]
    talk.ask("by an administrator", LeaveGroupRequest(group_id=group, members=removed))
    describe(talk, "removed")


def listings(talk: Talk) -> None:
    """ListGroups with filters, about one group of each state."""
    stable(talk)
    for states in ([], ["Stable"], ["stable"], ["STABLE", "Empty"], ["Empty"], ["nonsense"], [""]):
        for types in (
            [],
            ["classic"],
            ["Classic"],
            ["consumer"],
            ["nonsense"],
            ["classic", "consumer"],
            ["unknown"],
            [""],
        ):
            step = f"states {states}, types {types}"
            only_own(talk, step, ListGroupsRequest(states_filter=states, types_filter=types))


def only_own(talk: Talk, step: str, request: ListGroupsRequest) -> None:
    """Note the error, and the group of this history if it is listed."""
    talk.only_group(step, request)


def stable(talk: Talk) -> Answer:
    """A group of one member."""
    joined = talk.join("alone", join_request(talk.group))
    mine = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    of_member = {"group_id": talk.group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    kind = {"protocol_type": "consumer", "protocol_name": "range"}
    talk.ask("alone", SyncGroupRequest(**of_member, **kind, assignments=mine))
    return joined


def describe(talk: Talk, step: str) -> None:
    """Note what DescribeGroups and ListGroups say of the group."""
    talk.ask(step, DescribeGroupsRequest(groups=[talk.group]))
    talk.only_group(step, ListGroupsRequest())


def in_state(talk: Talk, state: str) -> None:
    """Wait until the group is in this state."""
    request = DescribeGroupsRequest(groups=[talk.group])
    talk.until(f"until {state}", lambda: request, lambda answer: answer.groups[0].group_state == state)


HISTORIES = [
    coordinators,
    wrong_joins,
    unknown_group,
    wrong_members,
    one_life,
    deleted,
    two_members,
    static_members,
    listings,
]
