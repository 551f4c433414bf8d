"""Rules about consumers that get nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import (
    CALM,
    LATEST,
    NOTED,
    STUCK,
    WAITS,
    Conclusion,
    Facts,
    name_of,
    names_of,
    owned,
)
from purgatorio.admin.operations.reading.why.refusals import is_over
from purgatorio.broker.causes.words import MAX_NAMED, listed, plural, seconds

STABLE: Final = "Stable"
EMPTY: Final = ("Empty", "Dead")
LONG_POLL_MS: Final = 1_000
"""A consumer whose last fetch is not longer ago is between two polls."""
IDLE_MS: Final = 300
"""A consumer that polls fetches again sooner, or its fetch waits; a wait that is shorter explains nothing."""
DEPARTED_MS: Final = 12_000
"""So long after its members have left an empty group is still explained: clients may take ten seconds to close."""
BETWEEN_POLLS_MS: Final = 200
"""A fetch and the poll that it is for are not further apart."""


def was_there_before(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers that were connected when the cluster was reset, for this test, and are there again."""
    others = set(facts.document["left_over"])
    for client in facts.document["left_over"]:
        reads = [each for each in facts.positions if each["client"] == client and each["topic"][:1] != "_"]
        groups = [group for group, _ in facts.memberships(client) if group["type"] != "share"]
        beside = [(group, {each["client"] for each in group["members"]} - others) for group in groups]
        shared = [(group, sorted(clients)) for group, clients in beside if clients]
        if shared:
            group, clients = shared[0]
            does, about = f"is in {group['id']} with {listed(clients)}", (group["id"], *clients)
        elif reads:
            does, about = f"reads {listed(sorted(map(name_of, reads)))}", _about(facts, reads[0])
        elif asked := [topic for topic in facts.asked_topics(client) if topic in facts.topics]:
            does, about = f"asks for {listed(asked)}", tuple(asked)
        else:
            continue
        says = f"{client} was connected before the last reset of the cluster, and {does}; if an earlier test left it "
        yield Conclusion(f"{says}open, close it there", (client, *about), OVERRIDES if shared else NOTED)


OVERRIDES: Final = STUCK + 8
"""The weight of a conclusion about a client of another test that takes something from this one's."""


def reads_from_the_end(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers that began at the end of a partition that had records, and have read nothing since."""
    for position in facts.positions:
        place = position["topic"], position["partition"]
        partition = facts.partitions.get(place)
        start = facts.start_of(position["client"], *place)
        if partition is None or start is None or start["timestamp"] != LATEST:
            continue
        at = position["offset"]
        earlier = at - partition["log_start_offset"]
        if at != start["offset"] or not _is_idle(position, partition) or earlier <= 0:
            continue  # it has moved, or there are records to read, or there never were any
        client = position["client"]
        says = (
            f"{client} reads {name_of(position)} from offset {at}, the end: it asked for the end, after the "
            f"{'record' if earlier == 1 else plural(earlier, 'record')} (auto.offset.reset=latest, or a seek to the "
            f"end); to read {'that' if earlier == 1 else 'them'}, set earliest, or start it before"
        )
        yield Conclusion(says, _about(facts, position))


def goes_on_at_its_offset(facts: Facts) -> Iterator[Conclusion]:
    """Yield groups whose member has read nothing, as it went on at the committed offset, which is the end."""
    for position in facts.positions:
        place = position["topic"], position["partition"]
        partition = facts.partitions.get(place)
        at, start = position["offset"], facts.start_of(position["client"], *place)
        if partition is None or not _is_idle(position, partition) or at <= partition["log_start_offset"] or start:
            continue  # one that has asked where to begin had no committed offset
        if (position["client"], *place) in facts.asked_for_ends:
            continue  # another one of this client id may have committed the end, and have read nothing
        for group in facts.groups_now(position["client"]):
            if facts.committed(group, *place) == at:
                says = (
                    f"{group['id']} goes on at its committed offset {at}, the end of {name_of(position)}: it has read "
                    "what is before; reset its offsets, or take another group.id, to read that again"
                )
                yield Conclusion(says, _about(facts, position), WAITS - 5)


def _is_idle(position: Answer, partition: Answer) -> bool:
    """Return whether a consumer has read nothing of a partition since it began, and there is nothing behind that."""
    return bool(position["first_offset"] == position["offset"] >= partition["high_watermark"])


def _about(facts: Facts, position: Answer) -> tuple[str, ...]:
    groups = [group["id"] for group in facts.groups_of(position["client"])]
    return position["client"], position["topic"], *groups


def owns_no_partition(facts: Facts) -> Iterator[Conclusion]:
    """Yield members of stable groups that own nothing, since there are more members than partitions."""
    for group in facts.groups:
        gone = group["departed"] if group["state"] in EMPTY else None
        if gone is not None and facts.now_ms - gone["at_ms"] > DEPARTED_MS:
            continue  # it was another test's, or long ago
        members = group["members"] if gone is None else gone["members"]
        idle = [each for each in members if each["owned"] is not None and not owned(each)]
        is_settled = group["state"] == STABLE or gone is not None
        if not is_settled or group["type"] == "share" or not idle or len(idle) == len(members):
            continue
        names = names_of(group if gone is None else gone)
        owners: dict[str, list[str]] = {}
        counts: dict[str, int] = {}
        for member in members:
            for topic, _ in owned(member):
                owners.setdefault(topic, []).append(names[member["member_id"]])
                counts[topic] = counts.get(topic, 0) + 1
        topics = list(owners)[:3]
        own = "own" if gone is None else "owned"
        which = listed([_owned_by(topic, counts[topic], list(dict.fromkeys(owners[topic])), own) for topic in topics])
        lacking = [names[each["member_id"]] for each in idle]
        says = (
            f"{listed(lacking)} {own}{'s' * (len(idle) == 1 and gone is None)} no partition: {which}; for "
            f"{'it' if len(idle) == 1 else 'them'} to read, give {listed(topics)} more partitions, or "
            f"{lacking[0] if len(idle) == 1 else 'them'} another group.id"
        )
        about = (group["id"], *lacking, *(each["client"] for each in idle), *owners)
        yield Conclusion(says, about, STUCK if gone is None else WAITS)


def _owned_by(topic: str, count: int, owners: list[str], own: str) -> str:
    number = "one" if count == 1 else str(count)
    return f"{topic} has {number}, which {listed(owners)} {own}{'s' * (len(owners) == 1 and own == 'own')}"


def rebalances(facts: Facts) -> Iterator[Conclusion]:
    """Yield groups that rebalance now: their members get nothing until the others have come."""
    for group in facts.groups:
        waits = group["waits_for"]
        if not waits or group["state"] in (STABLE, *EMPTY):
            continue
        for whom in (f"rebalance of {group['id']} waits for ", f"of {group['id']} waits for "):
            _, found, left = waits.partition(whom)
            waits = left if found else waits
        since = [each["at_ms"] for each in group["rebalances"]]
        parked = [each["waited_ms"] for each in facts.parked if each["group"] == group["id"]]
        age_ms = max(parked, default=None) if parked else facts.now_ms - since[-1] if since else None
        if age_ms is not None and age_ms < IDLE_MS:
            continue  # those for whom it waits may be on their way
        age = "" if age_ms is None else f", {seconds(age_ms)}"
        says = f"{group['id']} is rebalancing: waits for {waits}{age}{_absent(facts, group)}"
        clients = dict.fromkeys(each["client"] for each in group["members"])
        yield Conclusion(says, (group["id"], *clients), STUCK)


def _absent(facts: Facts, group: Answer) -> str:
    """Return the end of the sentence: which member does not come, though it lives."""
    absent = [each for each in group["members"] if each["waits_for"] == "has to join again"]
    if not absent:
        return ""
    names = names_of(group)
    beating = {row["client"] for row in facts.document["idle_requests"] if row["api"].endswith("Heartbeat")}
    alive = [names[each["member_id"]] for each in absent if each["client"] in beating]
    if not alive:
        return ""
    only = len(alive) == 1
    return f"; {listed(alive)} send{'s' * only} heartbeats, and must call poll to join again"


def reads_another_partition(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers all of whose partitions of a topic are empty, while others of it have records."""
    full = {topic: list(filter(_has_records, rows)) for topic, rows in facts.topics.items()}
    of_client: dict[tuple[str, str], list[Answer]] = {}
    for position in facts.positions:
        if full.get(position["topic"]):
            of_client.setdefault((position["client"], position["topic"]), []).append(position)
    for (client, topic), positions in of_client.items():
        own = [facts.partitions.get((topic, position["partition"])) for position in positions]
        if any(row is None or _has_records(row) for row in own) or facts.unlisted(client):
            continue
        read = [name_of(position) for position in sorted(positions, key=lambda each: int(each["partition"]))]
        rows = full[topic]
        others = {_owner(facts, client, row) for row in rows[:MAX_NAMED]}
        if client in others:
            continue  # it owns them, and has not fetched from them yet
        whose = f", which {listed(sorted(others))} own{'s' * (len(others) == 1)}" if all(others) else ""
        says = f"{client} is assigned {listed(read)}; the records are in {listed(list(map(name_of, rows)))}{whose}"
        if not whose:
            says += "; assign that" if len(rows) == 1 else "; assign those"
        yield Conclusion(says, _about(facts, positions[0]), STUCK if not whose else WAITS - 5)


def _has_records(partition: Answer) -> bool:
    return bool(partition["high_watermark"] > partition["log_start_offset"])


def _owner(facts: Facts, client: str, row: Answer) -> str:
    """Return the client that owns a partition in a group of this client; "" if none does."""
    for group, _ in facts.memberships(client):
        for member in group["members"]:
            if (row["topic"], row["partition"]) in owned(member):
                return str(member["client"])
    return ""


def waits_for_bytes(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers whose fetch has records, and waits for more of them."""
    for position in facts.positions:
        there, wanted = position["available_bytes"], position["min_bytes"]
        if position["is_waiting"] and there and there < wanted:
            says = f"{position['client']}'s fetch waits for fetch.min.bytes: {there} of {wanted} bytes"
            yield Conclusion(says, _about(facts, position), STUCK - 5)


def waits_at_the_end(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers for which there is no record: they began at the ends of all their partitions, and wait there."""
    of_client: dict[str, list[Answer]] = {}
    for position in facts.positions:
        if position["is_waiting"] or facts.now_ms - position["last_ms"] < LONG_POLL_MS:
            of_client.setdefault(position["client"], []).append(position)
    for client, positions in of_client.items():
        rows = [facts.partitions.get((each["topic"], each["partition"])) for each in positions]
        since_ms = max(position["since_ms"] for position in positions)
        if facts.now_ms - since_ms < IDLE_MS or any(_has_lost_one(facts, group) for group in facts.groups_of(client)):
            continue
        if all(row and _is_idle(at, row) for row, at in zip(rows, positions, strict=True)):
            names = listed(sorted(map(name_of, positions)), facts.unlisted(client))
            says = (
                f"{client} waits at the end of {names} for {seconds(facts.now_ms - since_ms)}: no record has come since"
            )
            yield Conclusion(says, _about(facts, positions[0]), CALM)


def _has_lost_one(facts: Facts, group: Answer) -> bool:
    """Return whether a member has left a group so lately that a failure may be about it."""
    left = (each["at_ms"] for each in group["rebalances"] if each["cause"] == "leave")
    return any(facts.now_ms - at_ms <= DEPARTED_MS for at_ms in left)


def does_not_fetch(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers that were given records, and have not fetched what is behind them since."""
    stopped: dict[str, list[Answer]] = {}
    for position in facts.positions:
        partition = facts.partitions.get((position["topic"], position["partition"]))
        if partition is None or position["was_given"] is None or position["is_waiting"]:
            continue
        if position["offset"] < partition["high_watermark"] and facts.now_ms - position["last_ms"] > IDLE_MS:
            stopped.setdefault(position["client"], []).append(position)
    for client, positions in stopped.items():
        if client not in facts.document["clients"] or _left(facts, client) is not None:
            continue  # it has been closed, or does not read any more
        last_ms = max(position["last_ms"] for position in positions)
        names = listed(sorted(map(name_of, positions)))
        got = f"it does not poll, or has paused {'it' if len(positions) == 1 else 'them'}"
        first = positions[0]
        says = f"{client} has not fetched from {names} for {seconds(facts.now_ms - last_ms)}: {got}"
        yield Conclusion(says, _about(facts, first), WAITS - 20)


def left_as_it_did_not_poll(facts: Facts) -> Iterator[Conclusion]:
    """Yield clients that left their group as max.poll.interval.ms was over, and are still there."""
    for client in dict.fromkeys(each["client"] for each in facts.positions if each["was_given"]):
        left = _left(facts, client)
        if left is None or client not in facts.document["clients"]:
            continue
        group_id, at_ms, detail = left
        last_ms = max(each["last_ms"] for each in facts.positions if each["client"] == client)
        if POLL_TIMEOUT not in detail and at_ms - last_ms < _poll_interval_ms(facts, client, group_id):
            continue  # it may have unsubscribed
        says = (
            f"{client} left {group_id} {seconds(facts.now_ms - at_ms)} ago, as it had not polled for "
            f"{seconds(at_ms - last_ms)}: it commits nothing any more; poll more often, or raise max.poll.interval.ms"
        )
        yield Conclusion(says, (client, group_id), STUCK)


POLL_TIMEOUT: Final = "poll timeout"
"""Words of the reason that some clients give as they leave."""


def _poll_interval_ms(facts: Facts, client: str, group_id: str) -> float:
    """Return the least time between the last fetch of a client that did not poll in time, and its leave."""
    for each in facts.document["joined"]:
        if (each["client"], each["group"]) == (client, group_id) and each["rebalance_timeout_ms"] > 0:
            return max(BETWEEN_POLLS_MS, float(each["rebalance_timeout_ms"]) - BETWEEN_POLLS_MS)
    return math.inf


def _left(facts: Facts, client: str) -> tuple[str, int, str] | None:
    """Return the group that a client, which is in none now, left last, when, and the detail of that."""
    return None if facts.memberships(client) else _last(facts, client, "leave")


def _last(facts: Facts, client: str, cause: str) -> tuple[str, int, str] | None:
    """Return the group that rebalanced last for this cause and a member of a client, when, and the detail."""
    found = [
        (group["id"], int(each["at_ms"]), str(each["detail"]))
        for group in facts.groups
        for each in group["rebalances"]
        if each["cause"] == cause and _is_of(each["detail"], client)
    ]
    return max(found, key=lambda each: each[1], default=None)


def _is_of(detail: str, client: str) -> bool:
    """Return whether the detail of a rebalance is about a client: by its id, or the member id that begins with it."""
    for each in detail.split("; "):
        name = each.removeprefix("member ").partition(":")[0]
        if client in (name, name.rsplit("-", PARTS_OF_UUID)[0]):
            return True
    return False


PARTS_OF_UUID: Final = 5


def commits_too_late(facts: Facts) -> Iterator[Conclusion]:
    """Yield clients whose commits are refused, as the group has gone on without them."""
    for row in facts.errors:
        late = set(row["errors"]) & LATE
        if not late or row["api"] not in ("OffsetCommit", "TxnOffsetCommit") or is_over(facts, row):
            continue
        client, refused = row["client"], f"{row['api']} of {row['client']} is refused, {listed(sorted(late))}"
        over = None if facts.memberships(client) else _last(facts, client, "session over")
        left = _left(facts, client)
        if over is not None and (left is None or left[1] < over[1]):
            ago = seconds(facts.now_ms - over[1])
            says = f"{client}'s session in {over[0]} ended {ago} ago, without a heartbeat in time: {refused}"
        else:
            says = f"{refused}: its group has gone on without it"
        yield Conclusion(says, (client, *row["topics"]), STUCK + 5 if over else STUCK - 5)


LATE: Final = frozenset(("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"))


def has_left(facts: Facts) -> Iterator[Conclusion]:
    """Yield members that the coordinator has removed, or that have left because they were too slow."""
    for group in facts.groups:
        gone = [each for each in group["rebalances"] if each["cause"] in REMOVED]
        if gone:
            last = gone[-1]
            ago = seconds(facts.now_ms - last["at_ms"])
            says = f"{last['detail'] or 'a member'} was removed from {group['id']} {ago} ago: {REMOVED[last['cause']]}"
            clients = dict.fromkeys(each["client"] for each in group["members"])
            yield Conclusion(says, (group["id"], *clients), WAITS - 10)


REMOVED: Final[Mapping[str, Any]] = {
    "session over": "no heartbeat for session.timeout.ms",
    "no sync": "it did not ask for its assignment in time",
}

RULES: Final = (
    was_there_before,
    reads_from_the_end,
    owns_no_partition,
    rebalances,
    reads_another_partition,
    waits_for_bytes,
    goes_on_at_its_offset,
    left_as_it_did_not_poll,
    commits_too_late,
    does_not_fetch,
    waits_at_the_end,
    has_left,
)
