"""Histories of share groups (KIP-932): heartbeats, descriptions, and their start offsets."""

from __future__ import annotations

from typing import Any

from purgatorio.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from purgatorio.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from purgatorio.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from purgatorio.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from purgatorio.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from purgatorio.protocol.messages.sync_group import SyncGroupRequest
from tests.compat.same_answers.classic_histories import describe, stable
from tests.compat.same_answers.offset_histories import commit, delete, fetch
from tests.compat.same_answers.talk import Answer, Talk, join_request

ERAS = (0, 1, 5)
"""Those that change an answer: offsets have a lag since 1, groups are listed by type since 5."""
ME, OTHER, NOBODY = "me", "other", "nobody"
LETTERS = "letters"
PROBES = 20
"""So many groups that each of the five partitions of the offsets topic has some."""


def beat(talk: Talk, member_epoch: int, **changes: Any) -> ShareGroupHeartbeatRequest:
    """A heartbeat of the first member with nothing new, but for the changes."""
    return ShareGroupHeartbeatRequest(
        **{"group_id": talk.group, "member_id": talk.given(ME), "member_epoch": member_epoch, **changes}
    )


def joining(talk: Talk, **changes: Any) -> ShareGroupHeartbeatRequest:
    """A right request to join, but for the changes."""
    return beat(talk, **{"member_epoch": 0, "subscribed_topic_names": [LETTERS], **changes})


def new_topic(talk: Talk, name: str, partitions: int = 1) -> str:
    """Create a topic, and wait until all parts of the group coordinator know it, so that it begins no epoch later on.

    Start offsets of groups that no history knows are set until that is no more refused.
    """
    topic = talk.new_topic(name, partitions)
    requests = [altered(talk, {topic: {0: 0}}, group=f"{topic}-{number}") for number in range(PROBES)]
    talk.until_true(lambda: not any(_is_refused(talk, request) for request in requests))
    return topic


def _is_refused(talk: Talk, request: Any) -> bool:
    answer = talk.ask("start offsets", request, record=False)
    return bool(answer.error_code or answer.responses[0].partitions[0].error_code)


def joined(talk: Talk, step: str, *, count: int = 3, **changes: Any) -> Answer:
    """Join, or join again, and beat until this many partitions are assigned; note the answer with them.

    Kafka's first answer assigns nothing: the partitions have no state yet.
    """
    epoch = talk.ask(step, joining(talk, **changes), record=False).member_epoch
    who = {name: changes[name] for name in ("group_id", "member_id") if name in changes}
    names = changes.get("subscribed_topic_names", [LETTERS])

    def again() -> ShareGroupHeartbeatRequest:
        return beat(talk, epoch, **who, subscribed_topic_names=names)

    def has_all(answer: Answer) -> bool:
        nonlocal epoch
        epoch = answer.member_epoch
        given = answer.assignment.topic_partitions if answer.assignment is not None else ()
        return sum(len(each.partitions) for each in given) == count

    return talk.until(step, again, has_all)


def described(talk: Talk, step: str) -> None:
    """Note what all descriptions say of the group."""
    talk.ask(step, ShareGroupDescribeRequest(group_ids=[talk.group], include_authorized_operations=True))
    talk.ask(step, ConsumerGroupDescribeRequest(group_ids=[talk.group]))
    describe(talk, step)
    if talk.era >= 5:
        for name, filters in {
            "share": {"types_filter": ["share"]},
            "Share": {"types_filter": ["Share"]},
            "classic": {"types_filter": ["classic"]},
            "stable": {"states_filter": ["Stable"]},
            "empty": {"states_filter": ["empty"]},
            "both": {"types_filter": ["share"], "states_filter": ["Empty"]},
        }.items():
            talk.only_group(f"{step}, {name}", ListGroupsRequest(**filters))


def wrong_heartbeats(talk: Talk) -> None:
    """Combinations of fields that are not allowed, of a group that does not exist."""
    wrong: dict[str, dict[str, Any]] = {
        "empty group": {"group_id": ""},
        "group of spaces": {"group_id": "   "},
        "empty member": {"member_id": ""},
        "member of spaces": {"member_id": "  "},
        "long member": {"member_id": talk.given("x" * 37)},
        "odd member": {"member_id": talk.given("odd id"), "group_id": f"{talk.group}-o"},
        "empty rack": {"rack_id": ""},
        "rack of spaces": {"rack_id": " "},
        "no subscription": {"subscribed_topic_names": None},
        "empty subscription": {"subscribed_topic_names": []},
        "unknown topic": {"subscribed_topic_names": ["unknown"], "group_id": f"{talk.group}-u"},
        "bad topic name": {"subscribed_topic_names": ["a b"], "group_id": f"{talk.group}-b"},
        "empty topic name": {"subscribed_topic_names": [""], "group_id": f"{talk.group}-n"},
        "internal topic": {"subscribed_topic_names": ["__consumer_offsets"], "group_id": f"{talk.group}-i"},
        "epoch 1": {"member_epoch": 1},
        "epoch 1, plain": {"member_epoch": 1, "subscribed_topic_names": None},
        "epoch -1": {"member_epoch": -1},
        "epoch -1, plain": {"member_epoch": -1, "subscribed_topic_names": None},
        "epoch -2": {"member_epoch": -2},
        "epoch -3, plain": {"member_epoch": -3, "subscribed_topic_names": None},
    }
    for step, changes in wrong.items():
        talk.ask(step, joining(talk, **changes))
    described(talk, "after all")


def wrong_epochs(talk: Talk) -> None:
    """Heartbeats of a lone member with other epochs, and of strangers."""
    epoch = joined(talk, "alone").member_epoch
    nobody = talk.given(NOBODY)
    for name, other in (("right", epoch), ("-1", -1), ("next", epoch + 1)):
        talk.ask(f"nobody, {name} epoch", beat(talk, other, member_id=nobody))
    talk.ask("right", beat(talk, epoch))
    talk.ask("the one before", beat(talk, epoch - 1))
    for name, other in (("next", epoch + 1), ("far", 100), ("-2", -2)):
        talk.ask(f"{name} epoch", beat(talk, other))
    talk.ask("empty rack", beat(talk, epoch, rack_id=""))
    talk.ask("no names", beat(talk, epoch, subscribed_topic_names=[]))
    talk.ask("still right", beat(talk, epoch))
    described(talk, "after all")


def one_member(talk: Talk) -> None:
    """A member joins, changes its subscription, and leaves; the group is deleted."""
    epoch = joined(talk, "alone").member_epoch
    described(talk, "alone")
    talk.ask("not empty", DeleteGroupsRequest(groups_names=[talk.group]))
    talk.ask("joins again", joining(talk))
    epoch = talk.ask("rack", beat(talk, epoch, rack_id="rack")).member_epoch
    topic = new_topic(talk, "two", 2)
    both = [LETTERS, topic]
    answer = joined(talk, "both topics", count=5, subscribed_topic_names=both)
    described(talk, "both topics")
    answer = joined(talk, "one topic", count=2, subscribed_topic_names=[topic])
    described(talk, "one topic")
    talk.ask("leaves", beat(talk, -1))
    described(talk, "left")
    talk.ask("leaves again", beat(talk, -1))
    talk.ask("comes back, unknown", beat(talk, answer.member_epoch))
    talk.ask("twice", DeleteGroupsRequest(groups_names=[talk.group]))
    described(talk, "deleted")
    talk.ask("deleted again", DeleteGroupsRequest(groups_names=[talk.group]))
    talk.ask("beats after", beat(talk, answer.member_epoch))


def two_members(talk: Talk) -> None:
    """A second member comes and goes: both have the only partition, then each of them one of two."""
    one, two = new_topic(talk, "one"), new_topic(talk, "two", 2)
    both = {"count": 1, "subscribed_topic_names": [one]}
    joined(talk, "first", **both)
    joined(talk, "second", **both, member_id=talk.given(OTHER))
    joined(talk, "first again", **both)
    described(talk, "both")
    talk.ask("first leaves", beat(talk, -1))
    joined(talk, "second alone", **both, member_id=OTHER)
    described(talk, "second alone")
    talk.ask("second leaves", beat(talk, -1, member_id=OTHER))
    described(talk, "none")
    joined(talk, "first of two", count=2, subscribed_topic_names=[two])
    joined(talk, "second of two", count=1, subscribed_topic_names=[two], member_id=OTHER)
    joined(talk, "first again of two", count=1, subscribed_topic_names=[two])
    described(talk, "two")


def more_partitions(talk: Talk) -> None:
    """A topic gets another partition, which begins at its first record."""
    topic = new_topic(talk, "grows")
    joined(talk, "one", count=1, subscribed_topic_names=[topic])
    talk.ask("one", offsets(talk, topic, 0))
    grown = CreatePartitionsTopic(name=topic, count=2, assignments=None)
    talk.ask("two", CreatePartitionsRequest(topics=[grown], timeout_ms=10_000), version=3)
    joined(talk, "two", count=2, subscribed_topic_names=[topic])
    talk.ask("two", offsets(talk, topic, 0, 1))
    described(talk, "two")


def other_kinds(talk: Talk) -> None:
    """Requests of other protocols to a share group, with a member and without."""
    joined(talk, "alone")
    plain = {"generation_id": 1, "member_id": ME}
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=talk.group,
        member_id=talk.given("AAAAAAAAAAAAAAAAAAAAAQ"),
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[LETTERS],
        topic_partitions=[],
    )
    for step in ("with a member", "empty"):
        talk.ask(step, join_request(talk.group))
        talk.ask(step, HeartbeatRequest(group_id=talk.group, **plain))
        talk.ask(step, SyncGroupRequest(group_id=talk.group, **plain))
        leaving = [MemberIdentity(member_id=ME)]
        talk.ask(step, LeaveGroupRequest(group_id=talk.group, member_id=ME, members=leaving))
        talk.ask(step, consumer)
        talk.ask(step, commit(talk, LETTERS, (0, 5, "a")), version=8)
        talk.ask(step, fetch(talk, LETTERS, 0), version=8)
        talk.ask(step, delete(talk, LETTERS, 0))
        if step != "empty":
            talk.ask("leaves", beat(talk, -1))
    described(talk, "after all")


def meets_classic(talk: Talk) -> None:
    """A share member comes to a classic group, and to one with offsets alone."""
    first = stable(talk)
    talk.ask("joins", joining(talk))
    talk.ask("beats", beat(talk, 1, member_id=first.member_id))
    talk.ask("leaves", beat(talk, -1, member_id=first.member_id))
    talk.ask("described", ShareGroupDescribeRequest(group_ids=[talk.group]))
    talk.ask("altered", altered(talk, {LETTERS: {0: 1}}))
    talk.ask("forgotten", forgotten(talk, LETTERS))
    talk.ask("offsets", offsets(talk, LETTERS, 0))
    group = f"{talk.group}-offsets"
    talk.ask("commits", commit(talk, LETTERS, (0, 5, "a"), group_id=group), version=8)
    talk.ask("joins offsets", joining(talk, group_id=group))
    talk.ask("alters offsets", altered(talk, {LETTERS: {0: 1}}, group=group))
    talk.ask("describes offsets", ShareGroupDescribeRequest(group_ids=[group]))


def unknown_group(talk: Talk) -> None:
    """Requests about groups that do not exist, or have no name."""
    for name, group in (("unknown", talk.group), ("empty id", "")):
        talk.ask(name, ShareGroupDescribeRequest(group_ids=[group]))
        talk.ask(
            f"{name}, operations",
            ShareGroupDescribeRequest(group_ids=[group, group], include_authorized_operations=True),
        )
        talk.ask(name, offsets(talk, LETTERS, 0, group=group))
        talk.ask(f"{name}, all", offsets(talk, None, group=group))
        talk.ask(name, forgotten(talk, LETTERS, group=group))
        talk.ask(f"{name}, no topics", forgotten(talk, group=group))
        talk.ask(f"{name}, no topics", altered(talk, {}, group=group))
        talk.ask(f"{name}, unknown topic", altered(talk, {"unknown": {0: 0}}, group=group))
    talk.ask("none", ShareGroupDescribeRequest(group_ids=[]))
    talk.ask("none", DescribeShareGroupOffsetsRequest(groups=[]))
    described(talk, "after all")


# --- start offsets ---


def offsets(talk: Talk, topic: str | None, *partitions: int, group: str | None = None) -> Any:
    """The start offsets of one topic; None: of all topics."""
    topics = None
    if topic is not None:
        topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=list(partitions))]
    name = talk.group if group is None else group
    asked = [DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=topics)]
    return DescribeShareGroupOffsetsRequest(groups=asked)


def altered(talk: Talk, starts: dict[str, dict[int, int]], *, group: str | None = None) -> Any:
    """New start offsets, by topic and partition."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in of_topic.items()
            ],
        )
        for topic, of_topic in starts.items()
    ]
    return AlterShareGroupOffsetsRequest(group_id=talk.group if group is None else group, topics=topics)


def forgotten(talk: Talk, *topics: str, group: str | None = None) -> Any:
    """Forget the start offsets of topics."""
    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    return DeleteShareGroupOffsetsRequest(group_id=talk.group if group is None else group, topics=asked)


def start_offsets(talk: Talk) -> None:
    """They are described, altered and deleted; not while there are members."""
    topic = new_topic(talk, "offsets", 2)
    joined(talk, "alone", count=2, subscribed_topic_names=[topic])
    talk.ask("with a member", offsets(talk, topic, 0, 1))
    talk.ask("with a member", altered(talk, {topic: {0: 0}}))
    talk.ask("with a member", forgotten(talk, topic))
    talk.ask("leaves", beat(talk, -1))
    talk.ask("new", offsets(talk, topic, 0, 1))
    talk.ask("all, new", offsets(talk, None))
    talk.ask("negative", altered(talk, {topic: {0: -1}}))
    talk.ask("negative", offsets(talk, topic, 0))
    talk.ask("far", altered(talk, {topic: {0: 100}}))
    talk.ask("far", offsets(talk, topic, 0))
    talk.ask("some", altered(talk, {topic: {0: 0, 9: 1}, "unknown": {0: 0}, LETTERS: {1: 0}}))
    talk.ask("some", offsets(talk, topic, 0, 1))
    talk.ask("some, other topic", offsets(talk, LETTERS, 0, 1))
    talk.ask("all, some", offsets(talk, None))
    described(talk, "some")
    talk.ask("unknown topic", offsets(talk, "unknown", 0))
    talk.ask("none", altered(talk, {}))
    talk.ask("no partitions", altered(talk, {topic: {}}))
    talk.ask("empty name", altered(talk, {"": {0: 0}}))
    talk.ask("unknown and known", forgotten(talk, "unknown", topic))
    talk.ask("gone", offsets(talk, topic, 0, 1))
    talk.ask("gone", forgotten(talk, topic))
    talk.ask("none", forgotten(talk))
    talk.ask("empty name", forgotten(talk, ""))
    talk.ask("all, at the end", offsets(talk, None))


def offsets_before_members(talk: Talk) -> None:
    """Start offsets make a group, to which a member comes."""
    talk.first_epoch = 0  # both begin with epoch 1
    topic = new_topic(talk, "before", 2)
    talk.until(
        "new group",
        lambda: altered(talk, {topic: {0: 5}}),
        lambda answer: not answer.responses[0].partitions[0].error_code,
    )
    described(talk, "new group")
    talk.ask("new group", offsets(talk, None))
    joined(talk, "joins", count=2, subscribed_topic_names=[topic])
    talk.ask("joins", offsets(talk, topic, 0, 1))
    described(talk, "joins")
    talk.ask("leaves", beat(talk, -1))
    talk.ask("deleted", DeleteGroupsRequest(groups_names=[talk.group]))
    talk.ask("deleted", offsets(talk, topic, 0, 1))
    described(talk, "deleted")


HISTORIES = [
    wrong_heartbeats,
    wrong_epochs,
    one_member,
    two_members,
    more_partitions,
    other_kinds,
    meets_classic,
    unknown_group,
    start_offsets,
    offsets_before_members,
]
