"""Histories of committed offsets: wrong requests, and commits by members and by nobody."""

from __future__ import annotations

import dataclasses
from typing import Any

from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from purgatorio.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from purgatorio.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.compat.same_answers.classic_histories import STATIC_MEMBERS_SINCE, describe, stable
from tests.compat.same_answers.talk import Talk, join_request

LETTERS = "letters"
UNKNOWN_ID = bytes(15) + b"\7"
ZERO_ID = bytes(16)


def commit(talk: Talk, topic: str, *partitions: tuple[int, int, str | None], **changes: Any) -> OffsetCommitRequest:
    """Offsets of one topic: partition, offset, metadata."""
    entries = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        for index, offset, metadata in partitions
    ]
    topics = [OffsetCommitRequestTopic(name=topic, topic_id=talk.topic_ids.get(topic, UNKNOWN_ID), partitions=entries)]
    return OffsetCommitRequest(**{"group_id": talk.group, "member_id": "", "topics": topics, **changes})


def fetch(
    talk: Talk, topic: str | None, *partitions: int, group: str | None = None, **member: Any
) -> OffsetFetchRequest:
    """The committed offsets of one topic; None: of all topics."""
    asked = list(partitions)
    name = talk.group if group is None else group
    old = new = None
    if topic is not None:
        old = [OffsetFetchRequestTopic(name=topic, partition_indexes=asked)]
        topic_id = talk.topic_ids.get(topic, UNKNOWN_ID)
        new = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=asked)]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=new, **member)]
    return OffsetFetchRequest(group_id=name, topics=old, groups=groups)


def fetch_all(talk: Talk, step: str) -> None:
    """Note all offsets of the group; version 1 cannot ask for them."""
    if talk.era >= 2:
        talk.ask(f"all, {step}", fetch(talk, None))
    talk.ask(step, fetch(talk, LETTERS, 0, 1, 2, 3))


def delete(talk: Talk, topic: str, *partitions: int, group: str | None = None) -> OffsetDeleteRequest:
    """Forget these partitions' offsets."""
    entries = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=entries)]
    return OffsetDeleteRequest(group_id=talk.group if group is None else group, topics=topics)


def older_fields(talk: Talk) -> None:
    """Leader epochs come back as they were; retention times change nothing at once."""
    request = commit(talk, LETTERS, (0, 5, "a"), (1, 6, "b"), retention_time_ms=60_000)
    request.topics[0].partitions[0].committed_leader_epoch = 7
    request.topics[0].partitions[1].committed_leader_epoch = -5
    talk.ask("epochs", request)
    fetch_all(talk, "epochs")
    request = commit(talk, LETTERS, (0, 2**63 - 1, "x"), (1, 0, "\0ü€😀"), retention_time_ms=-7)
    talk.ask("largest", request)
    fetch_all(talk, "largest")
    talk.ask("two topics of one name", dataclasses.replace(request, topics=request.topics * 2))
    fetch_all(talk, "two topics")


def no_group(talk: Talk) -> None:
    """Requests about groups that do not exist."""
    nobody = talk.given("nobody")
    fetch_all(talk, "nothing")
    talk.ask("unknown topic", fetch(talk, "unknown", 0, 1))
    talk.ask("no topics", _no_topics(talk))
    talk.ask("empty id", fetch(talk, LETTERS, 0, group=""))
    talk.ask("duplicate partitions", fetch(talk, LETTERS, 1, 1))
    talk.ask("member", fetch(talk, LETTERS, 0, member_id=nobody, member_epoch=1))
    talk.ask("no member, epoch", fetch(talk, LETTERS, 0, member_id=None, member_epoch=1))
    for generation in (0, 1):
        for member in ("", nobody):
            changes = {"generation_id_or_member_epoch": generation, "member_id": member}
            talk.ask(f"generation {generation}, member {member!r}", commit(talk, LETTERS, (0, 1, ""), **changes))
    talk.ask("unknown", delete(talk, LETTERS, 0))
    talk.ask("empty id", delete(talk, LETTERS, 0, group=""))
    talk.ask("unknown, no topics", OffsetDeleteRequest(group_id=talk.group, topics=[]))
    describe(talk, "still nothing")


def simple_group(talk: Talk) -> None:
    """Commits of nobody: right and wrong ones."""
    talk.ask("first", commit(talk, LETTERS, (0, 5, "a"), (1, 6, None), (2, 7, "")))
    fetch_all(talk, "first")
    describe(talk, "simple")
    talk.ask("negative", commit(talk, LETTERS, (0, -1, "minus"), (1, -2, "")))
    fetch_all(talk, "negative")
    talk.ask("unknown partitions", commit(talk, LETTERS, (3, 1, ""), (-1, 1, ""), (2, 8, "known")))
    talk.ask("unknown topic", commit(talk, "unknown", (0, 1, "")))
    talk.ask("empty topic name", commit(talk, "", (0, 1, "")))
    for size in (4_096, 4_097):
        talk.ask(f"metadata of {size}", commit(talk, LETTERS, (0, 9, "x" * size), (1, 10, "short")))
        fetch_all(talk, f"metadata of {size}")
    talk.ask("umlauts of 2,049 characters", commit(talk, LETTERS, (0, 11, "ü" * 2_049)))
    fetch_all(talk, "umlauts")
    talk.ask("duplicates", commit(talk, LETTERS, (0, 12, ""), (0, 13, "")))
    fetch_all(talk, "duplicates")
    talk.ask("no partitions", commit(talk, LETTERS))
    talk.ask("no topics", OffsetCommitRequest(group_id=talk.group, member_id="", topics=[]))
    nobody = talk.given("nobody")
    for generation, member in ((-1, nobody), (0, ""), (0, nobody), (1, nobody)):
        changes = {"generation_id_or_member_epoch": generation, "member_id": member}
        talk.ask(f"generation {generation}, member {member!r}", commit(talk, LETTERS, (0, 14, ""), **changes))
    if talk.era >= STATIC_MEMBERS_SINCE + 2:
        talk.ask("instance", commit(talk, LETTERS, (0, 15, ""), group_instance_id="one"))
    talk.ask("member", fetch(talk, LETTERS, 0, member_id=nobody, member_epoch=1))
    talk.ask("member, epoch -1", fetch(talk, LETTERS, 0, member_id=nobody, member_epoch=-1))
    talk.ask("empty member", fetch(talk, LETTERS, 0, member_id="", member_epoch=-1))
    fetch_all(talk, "before deletions")
    talk.ask("two", delete(talk, LETTERS, 0, 1))
    talk.ask("nothing there", delete(talk, LETTERS, 0))
    talk.ask("unknown partition", delete(talk, LETTERS, 9))
    talk.ask("unknown topic", delete(talk, "unknown", 0))
    talk.ask("no partitions", delete(talk, LETTERS))
    fetch_all(talk, "after deletions")
    talk.ask("a join takes it over", join_request(talk.group, protocol_type="connect"))
    talk.ask("the last one", delete(talk, LETTERS, 2))
    talk.ask("simple", DeleteGroupsRequest(groups_names=[talk.group]))
    fetch_all(talk, "after the end")


def members(talk: Talk) -> None:
    """Commits of members and strangers in a stable group, and in one that is empty again."""
    joined = stable(talk)
    nobody = talk.given("nobody")
    for name, member in (("member", joined.member_id), ("nobody", nobody), ("no id", "")):
        for generation in (-1, 0, 1, 2):
            changes = {"generation_id_or_member_epoch": generation, "member_id": member}
            step = f"{name}, generation {generation}"
            talk.ask(step, commit(talk, LETTERS, (0, 20 + generation, "")))
            talk.ask(f"{step}, for the group", commit(talk, LETTERS, (1, 30 + generation, ""), **changes))
    of_member = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    if talk.era >= STATIC_MEMBERS_SINCE + 2:
        talk.ask("unknown instance", commit(talk, LETTERS, (0, 15, ""), **of_member, group_instance_id="one"))
    talk.ask("unknown topic", commit(talk, "unknown", (0, 1, ""), **of_member))
    talk.ask("numbers", commit(talk, "numbers", (0, 3, ""), **of_member))
    fetch_all(talk, "stable")
    talk.ask("as a member", fetch(talk, LETTERS, 0, member_id=joined.member_id, member_epoch=1))
    talk.ask("as a member, wrong epoch", fetch(talk, LETTERS, 0, member_id=joined.member_id, member_epoch=9))
    talk.ask("subscribed", delete(talk, LETTERS, 0, 1))
    talk.ask("not subscribed", delete(talk, "numbers", 0))
    talk.ask("leader again", join_request(talk.group, member_id=joined.member_id))
    for generation in (1, 2):
        of_member["generation_id_or_member_epoch"] = generation
        talk.ask(f"completing, generation {generation}", commit(talk, LETTERS, (0, 40, ""), **of_member))
    me = [MemberIdentity(member_id=joined.member_id)]
    talk.ask("leaves", LeaveGroupRequest(group_id=talk.group, member_id=joined.member_id, members=me))
    talk.ask("after leaving", commit(talk, LETTERS, (0, 50, ""), **of_member))
    talk.ask("by nobody", commit(talk, LETTERS, (0, 51, "")))
    describe(talk, "empty")
    fetch_all(talk, "empty")
    talk.ask("no longer subscribed", delete(talk, LETTERS, 0))
    talk.ask("empty", DeleteGroupsRequest(groups_names=[talk.group]))


def several_groups(talk: Talk) -> None:
    """Offsets of several groups at once, since version 8."""
    if talk.era < 8:
        return
    talk.ask("first", commit(talk, LETTERS, (0, 5, "a")))
    ids = [talk.topic_ids[LETTERS], UNKNOWN_ID, ZERO_ID]
    topics = [
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0, 9])
        for name, topic_id in zip((LETTERS, "unknown", ""), ids, strict=True)
    ]
    groups = [
        OffsetFetchRequestGroup(group_id=talk.group, topics=topics),
        OffsetFetchRequestGroup(group_id=talk.group, topics=None),
        OffsetFetchRequestGroup(group_id=talk.group, topics=[]),
    ]
    talk.ask("several", OffsetFetchRequest(groups=groups))
    talk.ask("several, stable", OffsetFetchRequest(groups=groups[:1], require_stable=True))
    talk.ask("none", OffsetFetchRequest(groups=[]))


def _no_topics(talk: Talk) -> OffsetFetchRequest:
    groups = [OffsetFetchRequestGroup(group_id=talk.group, topics=[])]
    return OffsetFetchRequest(group_id=talk.group, topics=[], groups=groups)


HISTORIES = [older_fields, no_group, simple_group, members, several_groups]
