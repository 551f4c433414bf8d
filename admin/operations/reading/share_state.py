"""Share groups as their leaders know them, for people: which records are available, acquired, done or given up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.causes.words import MAX_SHOWN
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.share.acquisition_lock import AcquisitionLock
from purgatorio.broker.share.giving_up import DeadLetterCount
from purgatorio.broker.share.in_flight import InFlightBatch
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.protocol.share_state import RecordState

MAX_BATCHES: Final = 100
"""Batches of records that an answer shows of each share partition."""
MAX_PARTITIONS: Final = 100
"""Share partitions that an answer about one group shows."""


def read_share_groups(brokers: Iterable[Broker], limit: int) -> tuple[list[Answer], int]:
    """Return the groups that have share partitions on these brokers, by name, up to a limit; and how many there are."""
    found: dict[str, Answer] = {}
    for broker in brokers:
        for share in broker.led_shares.partitions:
            row = found.setdefault(share.key.group_id, {"partition_count": 0, **dict.fromkeys(_COUNTED, 0)})
            row["partition_count"] += 1
            for name, count in _counts(share).items():
                row[name] += count
    rows = [{"id": group_id[:MAX_SHOWN], **found[group_id]} for group_id in sorted(found)]
    return rows[:limit], len(rows)


def read_share_group(brokers: Iterable[Broker], group_id: str) -> Answer:
    """Return a group's share partitions on these brokers, and the members that fetch from them."""
    partitions: list[Answer] = []
    members: dict[str, None] = {}
    count = 0
    dead_letters: Answer = {"topic": None, "written": 0, "requests": 0, "failures": 0}
    for broker in brokers:
        of_broker = _dead_letters(broker, group_id)
        dead_letters["topic"] = dead_letters["topic"] or of_broker["topic"]
        _add_dead_letters(dead_letters, of_broker)
        for share in broker.led_shares.partitions.of_group(group_id):
            count += 1
            if len(partitions) < MAX_PARTITIONS:
                partitions.append(_partition(broker, share))
        members.update(dict.fromkeys(each[:MAX_SHOWN] for each in broker.led_shares.sessions.members(group_id)))
    partitions.sort(key=lambda row: (row["topic"], row["partition"]))
    return {
        "id": group_id,
        "members": list(islice(members, MAX_SHOWN)),
        "partitions": partitions,
        "partition_count": count,
        "dead_letters": dead_letters,
    }


def _dead_letters(broker: Broker, group_id: str) -> Answer:
    """Return the group's dead-letter topic as a broker knows it, and the numbers of its dead letters there."""
    count = broker.led_shares.dead_letters.counts.by_group.get(group_id, DeadLetterCount())
    return {
        "topic": broker.led_shares.settings.of(group_id).dead_letter_topic or None,
        "written": count.records,
        "requests": count.requests,
        "failures": count.failures,
    }


def _add_dead_letters(joined: Answer, other: Answer) -> None:
    """Add the numbers of other brokers."""
    for name in ("written", "requests", "failures"):
        joined[name] += other[name]


_COUNTED: Final = ("in_flight", "acquired", "done", "lock_count")


def _counts(share: SharePartition) -> dict[str, int]:
    """Return the numbers of records in flight by what is to be done with them, and of locks."""
    flight, locks = share.in_flight, share.locks()
    return {
        "in_flight": flight.record_count,
        "acquired": sum(lock.held_count for lock in locks),
        "done": flight.complete_count,
        "lock_count": len(locks),
    }


def _partition(leader: Broker, share: SharePartition) -> Answer:
    flight = share.in_flight
    batches = [_batch(each, leader) for each in islice(flight, MAX_BATCHES)]
    return {
        "topic": share.tp.topic,
        "partition": share.tp.partition,
        "leader": leader.broker_id,
        "state": share.state.value,
        "start_offset": flight.start_offset,
        "end_offset": flight.end_offset,
        **_counts(share),
        "batches": batches,
        "batch_count": len(flight),
    }


def _batch(batch: InFlightBatch, leader: Broker) -> dict[str, Any]:
    lock = batch.lock
    state = "hole" if batch.is_hole else "dead-lettered" if batch.is_dead_letter else batch.state.name.lower()
    return {
        "first_offset": batch.first_offset,
        "last_offset": batch.last_offset,
        "state": state,
        "becomes": None if batch.target is None else RecordState(batch.target).name.lower(),
        "delivery_count": batch.delivery_count,
        "member": None if lock is None else lock.member_id[:MAX_SHOWN],
        "lock_left_ms": None if lock is None else max(0, lock.deadline_ms - leader.led_shares.now_ms()),
    }


def merged(answers: Iterable[Answer]) -> Answer:
    """Return a group of several processes as one process with all of their brokers has it."""
    joined: Answer = {}
    for answer in answers:
        if not joined:
            joined = {**answer, "members": list(answer["members"]), "partitions": list(answer["partitions"])}
            joined["dead_letters"] = dict(answer["dead_letters"])
            continue
        _add_dead_letters(joined["dead_letters"], answer["dead_letters"])
        joined["members"] = list(dict.fromkeys([*joined["members"], *answer["members"]]))
        joined["partitions"] += answer["partitions"]
        joined["partition_count"] += answer["partition_count"]
    joined["partitions"].sort(key=lambda row: (row["topic"], row["partition"]))
    return joined


def locks_of(
    brokers: Iterable[Broker], group_id: str, member_id: str | None
) -> Iterator[tuple[Broker, AcquisitionLock]]:
    """Yield the acquisition locks of a group, or of one of its members."""
    for broker in brokers:
        for share in broker.led_shares.partitions.of_group(group_id):
            for lock in share.locks():
                if member_id is None or lock.member_id == member_id:
                    yield broker, lock
