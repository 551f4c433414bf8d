"""Histories of the consumer protocol (KIP-848): wrong heartbeats, and short lives of members."""

from __future__ import annotations

import struct
from typing import Any

from purgatorio.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from purgatorio.protocol.messages.offset_commit import OffsetCommitRequest
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.compat.same_answers.classic_histories import describe, stable
from tests.compat.same_answers.offset_histories import LETTERS, UNKNOWN_ID, commit, delete, fetch, fetch_all
from tests.compat.same_answers.talk import Answer, Talk, join_request

ERAS = (0, 1, 9, 10)
"""Those that change an answer: the heartbeat has two versions; commits change with 9 and 10."""
ME = "AAAAAAAAAAAAAAAAAAAAAQ"
OTHER = "AAAAAAAAAAAAAAAAAAAAAg"
NOBODY = "AAAAAAAAAAAAAAAAAAAAAw"
ALL_LETTERS = (  # a consumer's assignment in version 0: one topic, three partitions, no user data
    struct.pack(">hih7s", 0, 1, 7, LETTERS.encode()) + struct.pack(">4i", 3, 0, 1, 2) + struct.pack(">i", -1)
)


def beat(talk: Talk, member_epoch: int, **changes: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat of the first member with nothing new, but for the changes."""
    return ConsumerGroupHeartbeatRequest(
        **{"group_id": talk.group, "member_id": talk.given(ME), "member_epoch": member_epoch, **changes}
    )


def joining(talk: Talk, **changes: Any) -> ConsumerGroupHeartbeatRequest:
    """A right request to join, but for the changes."""
    new = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [LETTERS], "topic_partitions": []}
    return beat(talk, **{"member_epoch": 0, **new, **changes})


def joined(talk: Talk, step: str, **changes: Any) -> Answer:
    """Join, and take everything that is assigned."""
    answer = talk.ask(step, joining(talk, **changes))
    if answer.assignment is None:
        return answer
    return talk.ask(f"{step} owns", beat(talk, answer.member_epoch, **_who(changes), topic_partitions=_owned(answer)))


def _who(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: changes[name] for name in ("member_id", "instance_id") if name in changes}


def _owned(answer: Answer) -> list[TopicPartitions]:
    """What was assigned, as it is reported."""
    parts = answer.assignment.topic_partitions
    return [TopicPartitions(topic_id=bytes(part.topic_id), partitions=list(part.partitions)) for part in parts]


def described(talk: Talk, step: str) -> None:
    """Note what all descriptions say of the group."""
    talk.ask(step, ConsumerGroupDescribeRequest(group_ids=[talk.group]))
    describe(talk, step)


def wrong_heartbeats(talk: Talk) -> None:
    """Combinations of fields that are not allowed, of a group that does not exist."""
    owned = [TopicPartitions(topic_id=talk.topic_ids[LETTERS], partitions=[0])]
    wrong: dict[str, dict[str, Any]] = {
        "empty group": {"group_id": ""},
        "group of spaces": {"group_id": "   "},
        "empty instance": {"instance_id": ""},
        "instance of spaces": {"instance_id": " "},
        "empty rack": {"rack_id": ""},
        "no rebalance timeout": {"rebalance_timeout_ms": -1},
        "rebalance timeout 0": {"rebalance_timeout_ms": 0, "group_id": f"{talk.group}-0"},
        "rebalance timeout -2": {"rebalance_timeout_ms": -2, "group_id": f"{talk.group}-2"},
        "no partitions": {"topic_partitions": None},
        "partitions": {"topic_partitions": owned},
        "no subscription": {"subscribed_topic_names": None},
        "empty subscription": {"subscribed_topic_names": [], "group_id": f"{talk.group}-s"},
        "unknown topic": {"subscribed_topic_names": ["unknown"], "group_id": f"{talk.group}-u"},
        "topic twice": {"subscribed_topic_names": [LETTERS, LETTERS], "group_id": f"{talk.group}-t"},
        "bad topic name": {"subscribed_topic_names": ["a b"], "group_id": f"{talk.group}-b"},
        "empty topic name": {"subscribed_topic_names": [""], "group_id": f"{talk.group}-n"},
        "unknown assignor": {"server_assignor": "nonsense"},
        "empty assignor": {"server_assignor": ""},
        "upper case assignor": {"server_assignor": "RANGE"},
        "epoch -1": {"member_epoch": -1},
        "epoch -2, no instance": {"member_epoch": -2},
        "epoch -2, instance": {"member_epoch": -2, "instance_id": "one"},
        "epoch -3": {"member_epoch": -3},
        "epoch 1": {"member_epoch": 1},
        "epoch 1, plain": {
            "member_epoch": 1, "rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None
        },
        "epoch -1, plain": {
            "member_epoch": -1, "rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None
        },
        "epoch 1, empty member": {"member_epoch": 1, "member_id": ""},
        "epoch -1, empty member": {"member_epoch": -1, "member_id": ""},
        "odd member id": {"member_id": talk.given("odd id"), "group_id": f"{talk.group}-o"},
        "long member id": {"member_id": talk.given("x" * 37), "group_id": f"{talk.group}-l"},
        "empty member id": {"member_id": "", "group_id": f"{talk.group}-m"},
    }  # fmt: skip
    if talk.era >= 1:
        regexes = {"bad": "(", "star": "*", "look-ahead": "a(?!b)", "backreference": r"(a)\1", "repeat": "a{2000}"}
        for name, regex in regexes.items():
            changes = {"subscribed_topic_names": None, "subscribed_topic_regex": regex}
            wrong[f"regex {name}"] = {**changes, "group_id": f"{talk.group}-r-{name}"}
        wrong["empty regex"] = {"subscribed_topic_regex": "", "group_id": f"{talk.group}-er"}
        only = {"subscribed_topic_names": None, "subscribed_topic_regex": ""}
        wrong["only an empty regex"] = {**only, "group_id": f"{talk.group}-oer"}
    for step, changes in wrong.items():
        talk.ask(step, joining(talk, **changes))
    described(talk, "after all")


def wrong_epochs(talk: Talk) -> None:
    """Heartbeats of a lone member with other epochs, and of strangers."""
    answer = joined(talk, "alone")
    epoch = answer.member_epoch
    nobody = talk.given(NOBODY)
    for name, other in (("next", epoch + 1), ("far", 100), ("-3", -3)):
        talk.ask(f"{name} epoch", beat(talk, other))
    for name, other in (("right", epoch), ("-1", -1), ("-2", -2)):
        talk.ask(f"nobody, {name} epoch", beat(talk, other, member_id=nobody))
        talk.ask(f"nobody's instance, {name} epoch", beat(talk, other, member_id=nobody, instance_id="one"))
    for name, other in (("right", epoch), ("-2", -2)):
        talk.ask(f"unknown instance, {name} epoch", beat(talk, other, instance_id="one"))
    talk.ask("unknown assignor", beat(talk, epoch, server_assignor="nonsense"))
    talk.ask("rebalance timeout 0", beat(talk, epoch, rebalance_timeout_ms=0))
    talk.ask("empty rack", beat(talk, epoch, rack_id=""))
    partitions = [TopicPartitions(topic_id=UNKNOWN_ID, partitions=[0])]
    talk.ask("partitions of an unknown topic", beat(talk, epoch, topic_partitions=partitions))
    talk.ask("still right", beat(talk, epoch))
    talk.ask("full", joining(talk, member_epoch=epoch))
    talk.ask("joins again", joining(talk))
    described(talk, "after all")


def one_member(talk: Talk) -> None:
    """A member joins, commits, changes its subscription, and leaves; the group is deleted."""
    answer = joined(talk, "alone")
    described(talk, "alone")
    of_member = {"generation_id_or_member_epoch": answer.member_epoch, "member_id": ME}
    talk.ask("member", commit(talk, LETTERS, (0, 5, "a"), (9, 1, ""), **of_member))
    for name, epoch in (("-1", -1), ("0", 0), ("next", answer.member_epoch + 1)):
        changes = {**of_member, "generation_id_or_member_epoch": epoch}
        talk.ask(f"{name} epoch", commit(talk, LETTERS, (1, 6, ""), **changes))
    talk.ask("nobody", commit(talk, LETTERS, (1, 7, ""), **{**of_member, "member_id": NOBODY}))
    talk.ask("by no member", commit(talk, LETTERS, (1, 8, "")))
    fetch_all(talk, "by no member")
    for name, epoch in (("right", answer.member_epoch), ("next", answer.member_epoch + 1), ("0", 0), ("-1", -1)):
        talk.ask(f"{name} epoch", fetch(talk, LETTERS, 0, member_id=ME, member_epoch=epoch))
    talk.ask("nobody", fetch(talk, LETTERS, 0, member_id=NOBODY, member_epoch=1))
    talk.ask("subscribed", delete(talk, LETTERS, 0))
    talk.ask("with members", DeleteGroupsRequest(groups_names=[talk.group]))
    for types in (["consumer"], ["Consumer"], ["classic"]):
        for states in ([], ["stable"], ["Empty"], ["assigning"]):
            step = f"states {states}, types {types}"
            talk.only_group(step, ListGroupsRequest(states_filter=states, types_filter=types))
    both = [LETTERS, "numbers"]
    answer = talk.ask("more topics", beat(talk, answer.member_epoch, subscribed_topic_names=both))
    described(talk, "more topics")
    if answer.assignment is not None:
        answer = talk.ask("more topics, owned", beat(talk, answer.member_epoch, topic_partitions=_owned(answer)))
    answer = talk.ask("fewer topics", beat(talk, answer.member_epoch, subscribed_topic_names=["numbers"]))
    described(talk, "fewer topics")
    talk.ask("fewer topics, as before", beat(talk, answer.member_epoch))
    if answer.assignment is not None:
        answer = talk.ask("fewer topics, owned", beat(talk, answer.member_epoch, topic_partitions=_owned(answer)))
    described(talk, "fewer topics, owned")
    talk.ask("leaves", beat(talk, -1))
    described(talk, "empty")
    talk.ask("leaves again", beat(talk, -1))
    talk.ask("gone", beat(talk, answer.member_epoch))
    talk.ask("gone", commit(talk, LETTERS, (0, 5, "a"), **of_member))
    talk.ask("empty", commit(talk, LETTERS, (0, 6, "b")))
    fetch_all(talk, "empty")
    talk.ask("empty", DeleteGroupsRequest(groups_names=[talk.group]))
    described(talk, "deleted")


def assignors(talk: Talk) -> None:
    """A member asks for another assignor."""
    answer = joined(talk, "alone")
    answer = talk.ask("other assignor", beat(talk, answer.member_epoch, server_assignor="range"))
    described(talk, "other assignor")


def two_members(talk: Talk) -> None:
    """A second member joins; the first one gives partitions up."""
    first = joined(talk, "first")
    other = {"member_id": talk.given(OTHER)}
    second = talk.ask("second", joining(talk, **other))
    described(talk, "second joined")
    talk.ask("second waits", beat(talk, second.member_epoch, **other))
    told = talk.ask("first learns it", beat(talk, first.member_epoch))
    described(talk, "first revokes")
    talk.ask("first has not yet", beat(talk, told.member_epoch))
    old = {"generation_id_or_member_epoch": first.member_epoch, "member_id": ME}
    talk.ask("first, of what it gives up", commit(talk, LETTERS, (0, 1, ""), (1, 1, ""), (2, 1, ""), **old))
    if told.assignment is not None:
        told = talk.ask("first has", beat(talk, told.member_epoch, topic_partitions=_owned(told)))
    talk.ask("first's old epoch", beat(talk, first.member_epoch))
    talk.ask("first's old epoch", commit(talk, LETTERS, (0, 1, ""), (1, 1, ""), (2, 1, ""), **old))
    second = talk.ask("second gets it", beat(talk, second.member_epoch, **other))
    if second.assignment is not None:
        talk.ask("second owns", beat(talk, second.member_epoch, **other, topic_partitions=_owned(second)))
    described(talk, "both stable")
    talk.ask("second leaves", beat(talk, -1, **other))
    talk.ask("first alone", beat(talk, told.member_epoch))
    described(talk, "first alone")


def static_members(talk: Talk) -> None:
    """A static member leaves for a while and comes back; others may not take its place while it is there."""
    one, other = {"instance_id": "one"}, {"member_id": talk.given(OTHER), "instance_id": "one"}
    first = joined(talk, "first", **one)
    described(talk, "static")
    talk.ask("while it lives", joining(talk, **other))
    talk.ask("stranger with its instance", beat(talk, first.member_epoch, **other))
    talk.ask("without its instance", beat(talk, first.member_epoch))
    talk.ask("for a while", beat(talk, -2, **one))
    described(talk, "for a while")
    talk.ask("old member", beat(talk, first.member_epoch, **one))
    second = talk.ask("comes back", joining(talk, **other))
    described(talk, "came back")
    talk.ask("old member, later", beat(talk, first.member_epoch, **one))
    talk.ask("old member leaves", beat(talk, -1, **one))
    of_old = {"generation_id_or_member_epoch": first.member_epoch, "member_id": ME}
    talk.ask("old member", commit(talk, LETTERS, (0, 1, ""), **of_old))
    talk.ask("new member", beat(talk, second.member_epoch, **other))
    removal = [MemberIdentity(member_id="", group_instance_id="one")]
    talk.ask("by an administrator", LeaveGroupRequest(group_id=talk.group, member_id="", members=removal))
    described(talk, "removed")


def regexes(talk: Talk) -> None:
    """A member subscribes to a regular expression, and then to another one."""
    if talk.era < 1:
        return
    talk.ask("joins", joining(talk, subscribed_topic_names=None, subscribed_topic_regex="l.*"), record=False)
    epoch = 0

    def again() -> ConsumerGroupHeartbeatRequest:
        return joining(talk, subscribed_topic_names=None, subscribed_topic_regex="l.*")

    def has(answer: Answer) -> bool:
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    answer = talk.until("gets topics", again, has)
    epoch = answer.member_epoch
    talk.ask("owns", beat(talk, epoch, topic_partitions=_owned(answer)))
    described(talk, "owns")
    talk.ask("bad", beat(talk, epoch, subscribed_topic_regex="["))
    talk.ask("after the bad one", beat(talk, epoch))
    described(talk, "after the bad one")


def protocols_meet(talk: Talk) -> None:
    """Requests of one protocol to a group of the other one."""
    joined(talk, "alone")
    talk.ask("foreign type", join_request(talk.group, protocol_type="connect"))
    talk.ask("foreign data", join_request(talk.group, member_id=talk.given("nobody")))
    talk.ask("beats", HeartbeatRequest(group_id=talk.group, generation_id=1, member_id=ME))
    talk.ask("syncs", SyncGroupRequest(group_id=talk.group, generation_id=1, member_id=ME))
    talk.ask("nobody beats", HeartbeatRequest(group_id=talk.group, generation_id=1, member_id="nobody"))
    talk.ask("nobody syncs", SyncGroupRequest(group_id=talk.group, generation_id=1, member_id="nobody"))
    leaving = [MemberIdentity(member_id="nobody"), MemberIdentity(member_id="", group_instance_id="one")]
    talk.ask("nobody leaves", LeaveGroupRequest(group_id=talk.group, member_id="nobody", members=leaving))
    described(talk, "after all")
    leaving = [MemberIdentity(member_id=ME)]
    talk.ask("member leaves", LeaveGroupRequest(group_id=talk.group, member_id=ME, members=leaving))
    described(talk, "after leaving")


def classic_meets(talk: Talk) -> None:
    """A member of the consumer protocol comes to a classic group, which is stable."""
    first = stable(talk)
    described(talk, "classic")
    talk.ask("beats", beat(talk, 1, member_id=first.member_id))
    talk.ask("leaves", beat(talk, -1, member_id=first.member_id))
    talk.ask("nobody beats", beat(talk, 1))


def upgrade(talk: Talk) -> None:
    """A member of the consumer protocol comes to a stable classic group, which becomes a mixed one."""
    talk.first_epoch = 0  # both go on from the classic generation
    group, kind = talk.group, {"protocol_type": "consumer", "protocol_name": "range"}
    first = talk.join("classic", join_request(group))
    of_first = {"group_id": group, "generation_id": 1, "member_id": first.member_id}
    everything = [SyncGroupRequestAssignment(member_id=first.member_id, assignment=ALL_LETTERS)]
    talk.ask("classic", SyncGroupRequest(**of_first, **kind, assignments=everything))
    second = talk.ask("comes", joining(talk))
    described(talk, "mixed")
    talk.ask("has to join", HeartbeatRequest(**of_first))
    talk.ask("meanwhile", commit(talk, LETTERS, (0, 1, ""), generation_id_or_member_epoch=1, member_id=first.member_id))
    again = talk.ask("joins again", join_request(group, member_id=first.member_id))
    of_first["generation_id"] = again.generation_id
    talk.ask("beats before its sync", HeartbeatRequest(**of_first))
    talk.ask("syncs", SyncGroupRequest(**of_first, **kind))
    talk.ask("wrong protocol", SyncGroupRequest(**of_first, protocol_type="consumer", protocol_name="other"))
    talk.ask("wrong generation", SyncGroupRequest(**{**of_first, "generation_id": 77}, **kind))
    talk.ask("wrong generation", HeartbeatRequest(**{**of_first, "generation_id": 77}))
    talk.ask("beats", HeartbeatRequest(**of_first))
    described(talk, "first revoked")
    second = talk.ask("gets it", beat(talk, second.member_epoch))
    described(talk, "second has it")
    for generation in (-1, again.generation_id, 77):
        step = {-1: "none", 77: "far"}.get(generation, "right")
        changes = {"generation_id_or_member_epoch": generation, "member_id": first.member_id}
        talk.ask(f"{step} generation", commit(talk, LETTERS, (0, 1, ""), **changes))
    talk.ask("classic one as the other kind", beat(talk, -1, member_id=first.member_id))
    described(talk, "classic one left")


def odd_beats(talk: Talk) -> None:
    """Answers that were lost, and partitions that a member should not own."""
    first = joined(talk, "first")
    other = {"member_id": talk.given(OTHER)}
    everything = [TopicPartitions(topic_id=talk.topic_ids[LETTERS], partitions=[0, 1, 2])]
    second = talk.ask("second", joining(talk, **other))
    of_second = {**other, "topic_partitions": everything}
    talk.ask("second owns what it has not got", beat(talk, second.member_epoch, **of_second))
    told = talk.ask("first learns it", beat(talk, first.member_epoch))
    talk.ask("first reports all", beat(talk, told.member_epoch, topic_partitions=everything))
    talk.ask("first reports nothing", beat(talk, told.member_epoch, topic_partitions=[]))
    talk.ask("first's lost answer, all", beat(talk, first.member_epoch, topic_partitions=everything))
    talk.ask("first's lost answer, nothing", beat(talk, first.member_epoch, topic_partitions=[]))
    talk.ask("first's lost answer", beat(talk, first.member_epoch))
    described(talk, "first revoked")
    talk.ask("second joins again", joining(talk, **other))
    talk.ask("second, full", joining(talk, **other, member_epoch=second.member_epoch))
    talk.ask("twice the same", beat(talk, second.member_epoch, **other, subscribed_topic_names=[LETTERS]))
    talk.ask("unknown topic too", beat(talk, second.member_epoch, **other, subscribed_topic_names=[LETTERS, "unknown"]))
    described(talk, "at last")
    talk.ask("first leaves with partitions", beat(talk, -1, topic_partitions=[]))
    described(talk, "second alone")


def empty_classic(talk: Talk) -> None:
    """A member of the consumer protocol comes to a classic group without members, and a classic one back."""
    first = stable(talk)
    of_first = {"generation_id_or_member_epoch": 1, "member_id": first.member_id}
    talk.ask("classic", commit(talk, LETTERS, (0, 5, ""), **of_first))
    me = [MemberIdentity(member_id=first.member_id)]
    talk.ask("classic leaves", LeaveGroupRequest(group_id=talk.group, member_id=first.member_id, members=me))
    talk.ask("no topics", OffsetCommitRequest(group_id=talk.group, member_id="", topics=[]))
    joined(talk, "consumer")
    described(talk, "consumer")
    fetch_all(talk, "consumer")
    talk.ask("consumer leaves", beat(talk, -1))
    described(talk, "empty")
    talk.join("classic again", join_request(talk.group))
    described(talk, "classic again")
    fetch_all(talk, "classic again")


HISTORIES = [
    wrong_heartbeats,
    wrong_epochs,
    one_member,
    assignors,
    two_members,
    static_members,
    regexes,
    protocols_meet,
    classic_meets,
    upgrade,
    odd_beats,
    empty_classic,
]
