"""Reads groups from their coordinators, at a bounded cost: there may be thousands, with as many members and offsets."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from purgatorio.admin.operations.control.group_control import GroupControl
from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.offsets import GroupOffsets
from purgatorio.broker.group.overview import GroupOverview, MemberOverview, Owned, members, overview, owned_by
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.time.long_work import Steps

GROUPS: Final = 20
"""Groups on the page."""
GROUPS_LOOKED_AT: Final = 5_000
"""Groups among which those are chosen: two milliseconds."""
MAX_GROUPS_LOOKED_AT: Final = 20_000
"""The same for a list of groups."""
STABLE: Final = "Stable"
"""The state of a group of any protocol that has nothing to do but to consume."""
MEMBERS: Final = 10
"""Members of each group on the page."""
OWNERS: Final = 1_000
"""Members whose partitions the description of one group lists with their offsets."""
PARTITIONS: Final = 20
"""Partitions of a topic that are listed of a member on the page, or else `MAX_PARTITIONS`."""
MAX_PARTITIONS: Final = 2_000
OFFSETS_LOOKED_AT: Final = 10_000
"""Offsets among which those are chosen: some milliseconds."""
LAGS: Final = 2_000
"""Offsets whose lags are added up for the page, which asks five times a second: a millisecond."""
MAX_LAGS: Final = 20_000
"""The same for a list of groups."""
COST_OF_ROW: Final = 12
"""The cost of reading a member or an offset (see `LongWork`)."""


class FoundGroup(NamedTuple):
    """A group, where it is kept."""

    view: GroupOverview
    broker: Broker
    shard: GroupShard


class Ends:
    """Finds the high watermarks of partitions: as the leader knows them or, if it does not run here, another replica.

    Args:
        budget: the most offsets whose lags `lag_of` adds up.
    """

    def __init__(self, brokers: Sequence[Broker], image: ClusterImage, budget: int) -> None:
        self._running = {broker.broker_id: broker for broker in brokers}
        self._image = image
        self._budget = budget

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the high watermark, or None if the partition is gone or no replica runs here."""
        state = self._image.partition(topic, partition)
        for broker_id in () if state is None else (state.leader, *state.replicas):
            broker = self._running.get(broker_id)
            replica = None if broker is None else broker.replica(TopicPartition(topic, partition))
            if replica is not None:
                return replica.high_watermark
        return None

    def lag_of(self, offsets: GroupOffsets) -> int | None:
        """Return the sum of the lags that are known; None if none is, or the budget is spent."""
        self._budget -= sum(map(len, offsets.values()))
        if self._budget < 0:
            return None
        lags = [
            max(0, end - committed.offset)
            for topic, of_topic in offsets.items()
            for partition, committed in of_topic.items()
            if (end := self.end_of(topic, partition)) is not None
        ]
        return sum(lags) if lags else None


# --- many groups ---


def read_groups(control: GroupControl, ends: Ends, limit: int) -> tuple[list[Answer], int, int]:
    """Return up to `limit` groups by name, the number of all, and the number of partitions of groups being loaded.

    Of more than `MAX_GROUPS_LOOKED_AT` groups, some are neither listed nor counted.
    """
    active, loading = _active(control)
    names = list(islice(_names(active), MAX_GROUPS_LOOKED_AT))
    chosen = heapq.nsmallest(limit, names)
    groups = [_read_group(found, ends) for group_id, nth in chosen if (found := _found(*active[nth], group_id))]
    return groups, len(names), loading


def read_groups_for_page(control: GroupControl, ends: Ends) -> tuple[list[Answer], int]:
    """Return the most telling groups with their first members, and the number of all, up to `GROUPS_LOOKED_AT`.

    Those that rebalance come first, then those with members, then those with offsets only, each by name.
    """
    telling, count = _most_telling(control)
    shown = [{**_read_group(each, ends), "members": read_members(each, MEMBERS, PARTITIONS)} for each in telling]
    return shown, count


def read_groups_in_full(control: GroupControl, ends: Ends, document: Answer, *, members: int, offsets: int) -> Steps:
    """Add to a document in steps the same `groups`, each as `read_group` describes it, and `group_count`, of all.

    Their last `rebalances`, oldest first, are as `Rebalance` describes them. `departed` are the members of an empty
    group as they were when the first of them left, `at_ms`; or None.

    Args:
        members, offsets: how many of each group.
    """
    telling, document["group_count"] = _most_telling(control)
    document["groups"] = groups = []
    yield 1 + document["group_count"]
    for each in telling:
        began = each.broker.groups.history.of(each.view.id)
        found = {**_read_group(each, ends), "rebalances": [rebalance._asdict() for rebalance in began]}
        found["departed"] = _departed(each, partitions=MAX_PARTITIONS)
        found["members"] = read_members(each, members, MAX_PARTITIONS)
        yield COST_OF_ROW * (1 + len(found["members"]))
        found["offsets"] = list(_offsets(each, ends, offsets))
        groups.append(found)
        yield COST_OF_ROW * (1 + len(found["offsets"]))


def _departed(found: FoundGroup, partitions: int) -> Answer | None:
    departed = found.broker.groups.history.departed(found.view.id)
    group = found.shard.groups.get(found.view.id)
    if departed is None or not isinstance(group, ClassicGroup) or group.members:
        return None
    rows = [
        {
            "member_id": member_id,
            "client": client,
            "instance_id": None,
            "owned": _owned(owned_by(assignment), partitions),
        }
        for member_id, client, assignment in departed.members
    ]
    return {"at_ms": departed.at_ms, "members": rows}


def _most_telling(control: GroupControl) -> tuple[list[FoundGroup], int]:
    active, _ = _active(control)
    ranked = [
        (_rank(active[nth][1].groups.get(group_id)), group_id, nth)
        for group_id, nth in islice(_names(active), GROUPS_LOOKED_AT)
    ]
    chosen = (_found(*active[nth], group_id) for _, group_id, nth in heapq.nsmallest(GROUPS, ranked))
    return [each for each in chosen if each is not None], len(ranked)


def _active(control: GroupControl) -> tuple[list[tuple[Broker, GroupShard]], int]:
    shards = list(control.shards())
    active = [(broker, shard) for broker, shard in shards if shard.is_active]
    return active, len(shards) - len(active)


def _names(active: Sequence[tuple[Broker, GroupShard]]) -> Iterator[tuple[str, int]]:
    """Yield the id of each group, and the index of its partition in `active`."""
    return ((group_id, nth) for nth, (_, shard) in enumerate(active) for group_id in shard.group_ids())


def _rank(group: Group | None) -> int:
    if group is None or group.is_empty:
        return 2
    return 1 if group.state_name == STABLE else 0


def _found(broker: Broker, shard: GroupShard, group_id: str) -> FoundGroup | None:
    view = overview(broker.groups, shard, group_id)
    return None if view is None else FoundGroup(view, broker, shard)


def _read_group(found: FoundGroup, ends: Ends) -> Answer:
    """Return a group; its `lag` is of the `offset_count` partitions with committed offsets (None: unknown)."""
    offsets = found.shard.offsets.groups.get(found.view.id, {})
    return {
        **found.view._asdict(),
        "coordinator": found.broker.broker_id,
        "offset_count": sum(map(len, offsets.values())),
        "lag": ends.lag_of(offsets),
    }


# --- one group ---


def read_group(control: GroupControl, ends: Ends, group_id: str, *, members: int, offsets: int) -> Answer | None:
    """Return a group with up to so many members and offsets; None if it does not exist.

    Raises:
        OperationRefused: its coordinator does not run, or loads its groups.
    """
    broker, shard = control.find(group_id)
    found = _found(broker, shard, group_id)
    if found is None:
        return None
    return {
        **_read_group(found, ends),
        "members": read_members(found, members, MAX_PARTITIONS),
        "offsets": list(_offsets(found, ends, offsets)) if offsets else [],
    }


def read_members(found: FoundGroup, limit: int, partitions: int) -> list[Answer]:
    """Return up to `limit` members, each with up to `partitions` partitions of a topic."""
    group = found.shard.groups.get(found.view.id)
    now_ms = found.broker.groups.heartbeat_purgatory.now_ms()  # the clock of members, which may be behind the broker's
    return [_member(each, now_ms, partitions) for each in members(group, found.broker.groups.image, limit)]


def _member(member: MemberOverview, now_ms: int, partitions: int) -> Answer:
    """Return a member: `session_left_ms` is the time until it is taken for dead, if no heartbeat comes."""
    deadline_ms = member.session_deadline_ms
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "owned": _owned(member.owned, partitions),
        "waits_for": member.waits_for,
        "session_left_ms": None if deadline_ms is None else max(0, deadline_ms - now_ms),
        "session_timeout_ms": member.session_timeout_ms,
    }


def _owned(owned: Owned | None, limit: int) -> list[Answer] | None:
    if owned is None:
        return None
    return [
        {"topic": topic, "partitions": list(islice(numbers, limit)), "partition_count": len(numbers)}
        for topic, numbers in islice(owned.items(), limit)
    ]


def _offsets(found: FoundGroup, ends: Ends, limit: int) -> Iterator[Answer]:
    """Yield partitions that members consume or that have a committed offset, by name; none for share groups.

    `end_offset`: the high watermark (None: no replica runs here). `owner`: the id of the member that consumes it now
    ("": none).
    """
    group = found.shard.groups.get(found.view.id)
    if isinstance(group, ShareGroup):
        return
    owned = (
        ((topic, number), member.member_id)
        for member in members(group, found.broker.groups.image, OWNERS)
        for topic, numbers in (member.owned or {}).items()
        for number in numbers
    )
    owners = dict(islice(owned, OFFSETS_LOOKED_AT))
    offsets = found.shard.offsets.groups.get(found.view.id, {})
    known = (((topic, number), each) for topic, of_topic in offsets.items() for number, each in of_topic.items())
    committed = dict(islice(known, OFFSETS_LOOKED_AT))
    for topic, number in heapq.nsmallest(limit, dict.fromkeys((*committed, *owners))):
        own = committed.get((topic, number))
        end = ends.end_of(topic, number)
        yield {
            "topic": topic,
            "partition": number,
            "offset": None if own is None else own.offset,
            "end_offset": end,
            "lag": None if own is None or end is None else max(0, end - own.offset),
            "metadata": "" if own is None else own.metadata,
            "owner": owners.get((topic, number), ""),
        }
