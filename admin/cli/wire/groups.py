"""Consumer groups over Kafka's protocol: list, describe with lag, delete, and reset offsets."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from purgatorio.admin.cli.command import Answer, near
from purgatorio.admin.cli.wire.asking import Client, check_topic, explained, in_batches, patiently, refused, sentence
from purgatorio.admin.cli.wire.topics import offsets_of
from purgatorio.client.client import FAILURES, Coordinator, Partition, Refused
from purgatorio.client.fetch import EARLIEST, LATEST, list_offsets
from purgatorio.client.group import GroupMembership, all_committed_offsets, assignment_of, offset_commit
from purgatorio.client.negotiated import NotServed
from purgatorio.protocol.errors import ErrorCode, ProtocolError
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.describe_groups import DescribeGroupsRequest
from purgatorio.protocol.messages.list_groups import ListGroupsRequest
from purgatorio.protocol.messages.metadata import MetadataResponse

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
LIMIT: Final = 1_000
"""Groups that are listed, unless fewer are asked for."""
MAX_LAGS: Final = 100
"""Groups of a list whose lag is looked up: it takes a request for each."""
MAX_MEMBERS: Final = 1_000
MAX_OFFSETS: Final = 2_000
_ABSENT: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID)


async def list_groups(client: Client, args: argparse.Namespace) -> Answer:
    """Return what `ListGroups` does, as far as Kafka's protocol has it."""
    rows, loading = await listed_groups(client)
    shown = rows[: LIMIT if args.limit is None else args.limit]
    await _count_members(client, shown)
    for row in shown[:MAX_LAGS]:
        offsets = await _offsets(client, row["id"], {})
        lags = [each["lag"] for each in offsets if each["lag"] is not None]
        row["lag"] = sum(lags) if lags else None
    return {"groups": shown, "group_count": len(rows), "loading_partition_count": loading}


async def listed_groups(client: Client) -> tuple[list[Answer], int]:
    """Return all groups by id, and how many brokers cannot list theirs now."""
    brokers = [each.node_id for each in (await client.describe([])).brokers]
    answers = await asyncio.gather(*(client.ask(each, ListGroupsRequest()) for each in brokers))
    rows = [
        {
            "id": each.group_id,
            "type": each.group_type.lower() or CLASSIC,
            "state": each.group_state,
            "member_count": None,
            "lag": None,
            "coordinator": broker,
            "waits_for": "",
        }
        for broker, answer in zip(brokers, answers, strict=True)
        for each in answer.groups
    ]
    return sorted(rows, key=lambda row: str(row["id"])), sum(bool(answer.error_code) for answer in answers)


async def _count_members(client: Client, rows: Iterable[Answer]) -> None:
    """Add to groups how many members they have, where the broker says."""
    by_broker: dict[tuple[int, str], dict[str, Answer]] = {}
    for row in rows:
        by_broker.setdefault((row["coordinator"], row["type"]), {})[row["id"]] = row
    for (broker, kind), found in by_broker.items():
        for batch in in_batches(found):
            try:
                answer = await client.ask(broker, _describe_request(kind, batch))
            except NotServed:
                continue
            for each in answer.groups:
                if not each.error_code:
                    found[each.group_id]["member_count"] = len(each.members)
                    found[each.group_id]["state"] = each.group_state


def _describe_request(kind: str, groups: list[str]) -> Message:
    return ConsumerGroupDescribeRequest(group_ids=groups) if kind == CONSUMER else DescribeGroupsRequest(groups=groups)


# --- one group ---


async def describe(client: Client, args: argparse.Namespace) -> Answer:
    """Return what `DescribeGroup` does, as far as Kafka's protocol has it."""
    broker = await _coordinator(client, args.id)
    found = await patiently(client, partial(_described, client, broker, args.id))
    if found is None:
        raise await _absent(client, args.id)
    kind, group = found
    members = sorted((_member(kind, each) for each in group.members), key=lambda row: str(row["member_id"]))
    owners = {
        (owned["topic"], index): member["member_id"]
        for member in members
        for owned in member["owned"] or ()
        for index in owned["partitions"]
    }
    offsets = await _offsets(client, args.id, owners)
    lags = [each["lag"] for each in offsets if each["lag"] is not None]
    return {
        "id": args.id,
        "type": kind,
        "state": group.group_state,
        "assignor": group.assignor_name if kind == CONSUMER else group.protocol_data,
        "epoch": group.group_epoch if kind == CONSUMER else None,
        "coordinator": broker,
        "member_count": len(members),
        "offset_count": len(offsets),
        "lag": sum(lags) if lags else None,
        "waits_for": "",
        "members": members[: MAX_MEMBERS if args.members is None else args.members],
        "offsets": offsets[: MAX_OFFSETS if args.offsets is None else args.offsets],
    }


async def _described(client: Client, broker: int, group: str) -> tuple[str, Any] | None:
    """Return the kind of a group, and the broker's description; None: it does not exist."""
    for kind in (CONSUMER, CLASSIC):
        try:
            (found,) = (await client.ask(broker, _describe_request(kind, [group]))).groups
        except NotServed:
            continue
        if found.error_code and ErrorCode.known(found.error_code).retriable:
            raise Refused(ErrorCode.known(found.error_code))
        if found.error_code and found.error_code not in _ABSENT:
            raise refused(explained(found.error_code, found.error_message, f"group {group}"))
        if not found.error_code and found.group_state != "Dead":
            return kind, found
    return None


def _member(kind: str, member: Any) -> Answer:
    if kind == CONSUMER:
        parts: Iterable[Partition] | None = [
            (topic.topic_name, index) for topic in member.assignment.topic_partitions for index in topic.partitions
        ]
    else:
        parts = _assigned(member.member_assignment)
    owned: dict[str, list[int]] = {}
    for topic, index in sorted(parts or ()):
        owned.setdefault(topic, []).append(index)
    rows = [{"topic": topic, "partitions": each, "partition_count": len(each)} for topic, each in owned.items()]
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id if kind == CONSUMER else member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host.removeprefix("/"),
        "owned": None if parts is None else rows,
        "waits_for": "",
        "session_left_ms": None,
    }


def _assigned(assignment: Any) -> list[Partition] | None:
    """Return the partitions of an assignment; None if it is not one of consumers."""
    try:
        return assignment_of(assignment)
    except ProtocolError:
        return None


async def _offsets(client: Client, group: str, owners: Mapping[Partition, str]) -> list[Answer]:
    """Return the partitions of a group by name, with offset, end and lag."""
    try:
        committed = await all_committed_offsets(Coordinator(client, group), group)
    except Refused:
        committed = {}  # of a group of another kind
    known = sorted({*committed, *owners})
    ends = {}
    if known:
        metadata = await client.describe(sorted({topic for topic, _ in known}))
        ends = await offsets_of(client, _only(metadata, set(known)))
    return [_row(tp, committed.get(tp, -1), ends.get(tp, (None, None))[1], owners.get(tp, "")) for tp in known]


def _only(metadata: MetadataResponse, wanted: set[Partition]) -> MetadataResponse:
    """Leave these partitions in metadata."""
    for topic in metadata.topics:
        topic.partitions = [each for each in topic.partitions if (topic.name, each.partition_index) in wanted]
    return metadata


def _row(tp: Partition, offset: int, end: int | None, owner: str) -> Answer:
    own = None if offset < 0 else offset
    lag = None if own is None or end is None else max(0, end - own)
    shown = {"offset": own, "end_offset": end, "lag": lag, "metadata": "", "owner": owner}
    return {"topic": tp[0], "partition": tp[1], **shown}


async def delete(client: Client, args: argparse.Namespace) -> Answer:
    """Delete a group."""
    (result,) = (
        await client.ask(await _coordinator(client, args.id), DeleteGroupsRequest(groups_names=[args.id]))
    ).results
    if result.error_code in _ABSENT:
        raise await _absent(client, args.id)
    if result.error_code:
        why = "it has members" if result.error_code == ErrorCode.NON_EMPTY_GROUP else f"group {args.id}"
        raise refused(explained(result.error_code, result.error_message, why))
    return {"group": args.id, "state": "deleted"}


async def reset_offsets(client: Client, args: argparse.Namespace) -> Answer:
    """Commit offsets for a group without members."""
    metadata = await client.metadata(args.topic)
    (topic,) = metadata.topics
    await check_topic(client, args.topic, topic.error_code)
    leaders = {(args.topic, each.partition_index): each.leader_id for each in topic.partitions}
    if args.partition is not None:
        leaders = {tp: leader for tp, leader in leaders.items() if tp[1] == args.partition}
    if not leaders:
        raise refused(f"UNKNOWN_TOPIC_OR_PARTITION: topic {args.topic} has no partition {args.partition}")
    coordinator = Coordinator(client, args.id)
    is_new = await patiently(client, partial(_described, client, await _coordinator(client, args.id), args.id)) is None
    if is_new and not args.create:
        listed, _ = await listed_groups(client)
        if args.id not in (ids := [row["id"] for row in listed]) and (hint := near(args.id, sorted(ids))):
            raise refused(f"GROUP_ID_NOT_FOUND: there is no group {args.id}{hint} --create makes it")
    before = await all_committed_offsets(coordinator, args.id)
    after = await targets(client, leaders, args.to)
    answer = await coordinator.ask(offset_commit(GroupMembership(args.id), after))
    for each in (each for topic in answer.topics for each in topic.partitions):
        if each.error_code:
            why = "the group has members" if each.error_code == ErrorCode.UNKNOWN_MEMBER_ID else f"group {args.id}"
            raise refused(explained(each.error_code, None, why))
    rows = [(tp, before.get(tp, -1)) for tp in sorted(leaders)]
    offsets = [
        {"topic": tp[0], "partition": tp[1], "before": None if old < 0 else old, "after": after[tp]} for tp, old in rows
    ]
    return {"group": args.id, "new": is_new, "offsets": offsets}


async def targets(
    client: Client, leaders: Mapping[Partition, int], to: Mapping[str, Any], *, committed: bool = False
) -> dict[Partition, int]:
    """Return the offset of each partition that a user means.

    Args:
        leaders: the leader of each partition.
        to: ``to`` (earliest or latest), ``offset`` (the nearest that the log has; negative: so many before the end), or
            ``timestamp_ms`` (the first record as young; the end if there is none).
        committed: the end is the last stable offset.

    Raises:
        CommandRefused: a leader refuses.
        FAILURES: a leader does not answer.
    """
    found: dict[Partition, int] = {}
    for leader in sorted(set(leaders.values())):
        partitions = [tp for tp, each in leaders.items() if each == leader]
        if leader < 0:
            raise refused(f"LEADER_NOT_AVAILABLE: {partitions[0][0]}-{partitions[0][1]} has no leader")
        look_up = partial(_look_up, client, leader, partitions, committed)
        if to.get("to") == "earliest":
            found |= await look_up(EARLIEST)
            continue
        ends = await look_up(LATEST)
        if "timestamp_ms" in to:
            stamped = await look_up(to["timestamp_ms"])
            found |= {tp: end if stamped[tp] < 0 else min(stamped[tp], end) for tp, end in ends.items()}
        elif "offset" in to:
            starts = await look_up(EARLIEST)
            asked = {tp: to["offset"] if to["offset"] >= 0 else end + to["offset"] for tp, end in ends.items()}
            found |= {tp: min(max(asked[tp], starts[tp]), ends[tp]) for tp in partitions}
        else:
            found |= ends
    return found


async def _look_up(
    client: Client, leader: int, partitions: list[Partition], committed: bool, which: int
) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    for batch in in_batches(partitions, MAX_OFFSETS):
        for tp, (code, offset) in (
            await list_offsets(client, leader, dict.fromkeys(batch, which), committed=committed)
        ).items():
            if code:
                raise Refused(ErrorCode.known(code))
            found[tp] = offset
    return found


async def _coordinator(client: Client, group: str) -> int:
    """Return the broker that coordinates a group; the first group of a cluster waits until there is one."""
    try:
        return await patiently(client, partial(client.coordinator, group))
    except Refused as error:
        raise refused(f"{sentence(error)}: group {group} has no coordinator now") from None


async def _absent(client: Client, group: str) -> Exception:
    """Return the refusal for a group that does not exist, with the nearest name."""
    try:
        rows, _ = await listed_groups(client)
    except FAILURES:
        rows = []
    kinds = {row["id"]: row["type"] for row in rows}
    if group in kinds:
        return refused(f"GROUP_ID_NOT_FOUND: {group} is a {kinds[group]} group, which has no description here")
    return refused(f"GROUP_ID_NOT_FOUND: there is no group {group}{near(group, sorted(kinds))}")
