"""Share groups: where they read, which members have the records, and rules about members that get none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import WAITS, Conclusion, Facts, name_of, names_of
from purgatorio.broker.causes.words import MAX_NAMED, listed, plural, seconds
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.api_key import ApiKey

MAX_SHARES: Final = 500
COST_OF_SHARE: Final = 20
"""The cost of reading a share partition (see `LongWork`)."""


def read_shares(cluster: BrokerCluster, document: Answer) -> Steps:
    """Add `shares` and `acquired_by` to a document, in steps.

    A share: the `group` reads a `topic`'s `partition`, next from `next_offset`; `in_flight` records from `start_offset`
    on are not done with, of which `holders` (`member_id`) have `count`, until `lock_left_ms`. A new partition is read
    from `reset` on: "latest", "earliest" or "by_duration". `acquired_by`: the client ids that were given records;
    None: the log of requests does not go back to the first.
    """
    rows = document["shares"] = []
    for broker in cluster.brokers:
        now_ms = broker.led_shares.now_ms()
        for share in list(broker.led_shares.partitions)[: MAX_SHARES - len(rows)]:
            reset = broker.led_shares.settings.of(share.key.group_id).auto_offset_reset.to.value
            rows.append({**_read(share, now_ms), "reset": reset})
            yield COST_OF_SHARE
    log = cluster.faults.log
    document["acquired_by"] = None
    if log is not None and not log.forgotten:
        fetches = (each for each in log.entries if each.api_key == ApiKey.SHARE_FETCH and each.ended == "answered")
        given = (each.client for each in fetches if not each.errors and not each.found_nothing)
        document["acquired_by"] = list(dict.fromkeys(given))
    yield COST_OF_SHARE


def _read(share: SharePartition, now_ms: int) -> Answer:
    flight = share.in_flight
    holders: dict[str, Answer] = {}
    for lock in share.locks():
        held = holders.setdefault(lock.member_id, {"member_id": lock.member_id, "count": 0, "lock_left_ms": 0})
        held["count"] += lock.held_count
        held["lock_left_ms"] = max(held["lock_left_ms"], lock.deadline_ms - now_ms)
    return {
        "group": share.key.group_id,
        "topic": share.tp.topic,
        "partition": share.tp.partition,
        "start_offset": flight.start_offset,
        "next_offset": flight.end_offset + 1,
        "in_flight": flight.record_count,
        "holders": list(holders.values())[:MAX_NAMED],
    }


def reads_from_the_end(facts: Facts) -> Iterator[Conclusion]:
    """Yield share groups that began at the end of a partition that had records, and have got none since."""
    acquired_by = facts.document["acquired_by"]
    for row in facts.document["shares"]:
        partition = facts.partitions.get((row["topic"], row["partition"]))
        group = _group_of(facts, row)
        if partition is None or group is None or acquired_by is None or row["reset"] != "latest":
            continue
        clients = {each["client"] for each in group["members"]}
        at, begins = row["start_offset"], partition["log_start_offset"]
        if row["in_flight"] or not begins < at == partition["high_watermark"] or not clients.isdisjoint(acquired_by):
            continue
        earlier = "record" if at - begins == 1 else plural(at - begins, "record")
        says = (
            f"{row['group']} reads {name_of(row)} from offset {at}, the end: it began after the {earlier}, and "
            "share.auto.offset.reset=latest; set the group's config to earliest"
        )
        yield Conclusion(says, (row["group"], row["topic"], *clients))


def waits_for_others(facts: Facts) -> Iterator[Conclusion]:
    """Yield members that wait for records all of which others have."""
    waiting = {each["client"] for each in facts.parked if each["purgatory"] == "ShareFetch"}
    for row in facts.document["shares"]:
        partition = facts.partitions.get((row["topic"], row["partition"]))
        group = _group_of(facts, row)
        if group is None or partition is None or not row["holders"] or row["next_offset"] < partition["high_watermark"]:
            continue
        names = names_of(group)
        holders = {each["member_id"] for each in row["holders"]}
        idle = [each for each in group["members"] if each["client"] in waiting and each["member_id"] not in holders]
        if not idle:
            continue
        have = listed(
            [f"{names.get(each['member_id'], each['member_id'])} has {each['count']}" for each in row["holders"]]
        )
        left = seconds(max(each["lock_left_ms"] for each in row["holders"]))
        says = (
            f"{listed([names[each['member_id']] for each in idle])} get{'s' * (len(idle) == 1)} no records of "
            f"{name_of(row)}: {have}, until they are acknowledged, or their locks run out in {left}"
        )
        yield Conclusion(says, (row["group"], row["topic"], *(each["client"] for each in idle)), WAITS)


def _group_of(facts: Facts, row: Answer) -> Answer | None:
    return next((each for each in facts.groups if each["id"] == row["group"]), None)


RULES: Final = (reads_from_the_end, waits_for_others)
