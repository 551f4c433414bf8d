"""The checks of consumer groups: the partitions that members own, and their committed offsets.

A committed offset is a register. A read must return the last value that was certainly written before, or a later one:
one whose write was under way since, or may still take effect as its outcome is unknown. Values may go down: a member
that takes a partition over begins at the last commit, and commits what it has read from there.

The cost is O(n log n) in events, but O(n) a read in those writes to one partition that no later one has outlived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Cleaned,
    GroupAssigned,
    GroupBeat,
    GroupTransforms,
    History,
    OffsetCommitted,
    OffsetRead,
    Polled,
    TopicRecreated,
    UncleanElection,
)
from purgatorio.simulation.history.partition_history import ALL_REPLICAS

Found = Iterator[tuple[str, str]]
"""Where an anomaly is, and its description."""


def double_owner(history: History) -> Found:
    """Two members of a group got the same partition in one generation or member epoch."""
    owners: dict[tuple[str, int, str], GroupAssigned] = {}
    for event in history.of(GroupAssigned):
        for partition in event.partitions if event.generation >= 0 else ():
            other = owners.setdefault((event.group, event.generation, partition), event)
            if other.identity != event.identity:
                told = f"{partition} in generation {event.generation} is owned by {other.identity} "
                yield event.group, f"{told}since {other.time_ms} ms, and by {event.identity} since {event.time_ms} ms"


def stale_commit(history: History) -> Found:
    """A commit was taken of a member that had lost the partition to another one in a later generation."""
    owners: dict[tuple[str, str], list[GroupAssigned]] = {}
    for event in history:
        if isinstance(event, GroupAssigned):
            for partition in event.partitions:
                owners.setdefault((event.group, partition), []).append(event)
        elif isinstance(event, OffsetCommitted) and event.outcome == "acked":
            for owner in owners.get((event.group, event.partition), ()):
                is_later = owner.generation > event.generation and owner.time_ms < event.asked_ms
                if is_later and owner.identity != event.identity:
                    told = f"{event.identity} of generation {event.generation} committed {event.partition} at"
                    since = f"{owner.identity} owned it in generation {owner.generation} since {owner.time_ms} ms"
                    yield event.group, f"{told} {event.asked_ms} ms; {since}"
                    break


def stale_beat(history: History) -> Found:
    """A heartbeat was taken of a generation though a later one had its assignments."""
    newest: dict[str, list[GroupAssigned]] = {}
    for event in history:
        if isinstance(event, GroupAssigned):
            known = newest.setdefault(event.group, [])
            if not known or event.generation > known[-1].generation:
                known.append(event)
        elif isinstance(event, GroupBeat):
            for later in newest.get(event.group, ()):
                if later.generation > event.generation and later.time_ms < event.asked_ms:
                    told = f"{event.member} beat for generation {event.generation} at {event.asked_ms} ms"
                    since = f"generation {later.generation} had assignments since {later.time_ms} ms"
                    yield event.group, f"{told}; {since}"
                    break


@dataclass(slots=True)
class _Write:
    """A commit that may be what a read finds.

    It had certainly taken effect at `end_ms`, if it ever did; that is infinite while it is not known.
    """

    offset: int
    asked_ms: float
    end_ms: float
    is_certain: bool


_NOTHING: Final = -1


def lost_commit(history: History) -> Found:
    """A read returned a committed offset that an acknowledged commit had replaced before."""
    return _wrong_reads(history, lost=True)


def phantom_commit(history: History) -> Found:
    """A read returned a committed offset that no member had committed."""
    return _wrong_reads(history, lost=False)


def _wrong_reads(history: History, *, lost: bool) -> Found:
    for (group, partition), events in _by_register(history).items():
        writes = [_Write(_NOTHING, -math.inf, -math.inf, True)]
        writes += [
            _Write(each.offset, each.asked_ms, each.time_ms if is_acked else math.inf, is_acked)
            for each in events
            if isinstance(each, OffsetCommitted) and each.outcome != "refused"
            for is_acked in [each.outcome == "acked"]
        ]
        reads = [each for each in events if isinstance(each, OffsetRead)]
        for read in reads:
            of_value = [each for each in writes if each.offset == read.offset and each.asked_ms <= read.time_ms]
            told = f"{partition} was told to be at {read.offset}, asked at {read.asked_ms} ms"
            if not of_value:
                if not lost:
                    yield group, f"{told}; no member had committed that"
                continue
            newer = _outlived(writes, of_value, read)
            if newer is not None:
                if lost:
                    yield group, f"{told}; {newer.offset} was committed at {newer.end_ms:.0f} ms"
                continue
            if len(of_value) == 1:  # what is read has taken effect
                of_value[0].is_certain = True
                of_value[0].end_ms = min(of_value[0].end_ms, read.time_ms)


def _outlived(writes: list[_Write], of_value: list[_Write], read: OffsetRead) -> _Write | None:
    """Return a write that took effect after all of `of_value` and before the read, or None."""
    end_ms = max(each.end_ms for each in of_value)
    for write in writes:
        is_before_read = write.is_certain and write.end_ms < read.asked_ms
        if is_before_read and write.asked_ms > end_ms and write.offset != read.offset:
            return write
    return None


def _by_register(history: History) -> dict[tuple[str, str], list[Event]]:
    registers: dict[tuple[str, str], list[Event]] = {}
    for event in history:
        if isinstance(event, (OffsetCommitted, OffsetRead)):
            registers.setdefault((event.group, event.partition), []).append(event)
    return registers


def unprocessed(history: History) -> Found:
    """An acknowledged value (acks=-1) was never polled by a member of the group, though its log loses no record."""
    transforms = {event.group for event in history.of(GroupTransforms)}  # `transaction_checkers` has a check for these
    members: dict[str, set[str]] = {}
    names: dict[str, dict[str, None]] = {}
    for event in history.of(GroupAssigned):
        if event.group in transforms:
            continue
        members.setdefault(event.group, set()).add(event.member)
        names.setdefault(event.group, {}).update(dict.fromkeys(event.partitions))
    if not members:
        return
    lossy = {event.partition for event in history if isinstance(event, (Cleaned, TopicRecreated, UncleanElection))}
    for group, consumers in members.items():
        polled = {
            (poll.partition, value)
            for poll in history.of(Polled)
            if poll.consumer in consumers
            for _, value in poll.records
        }
        missed: dict[str, list[Acked]] = {}
        for ack in history.of(Acked):
            is_owed = ack.acks == ALL_REPLICAS and ack.partition in names[group] and ack.partition not in lossy
            if is_owed and (ack.partition, ack.value) not in polled:
                missed.setdefault(ack.partition, []).append(ack)
        for partition, acks in missed.items():
            first = f"{acks[0].value}, acknowledged at offset {acks[0].offset} at {acks[0].time_ms} ms"
            yield group, f"no member polled {len(acks)} values of {partition}; the first is {first}"


_ALL: Final[Mapping[str, Callable[[History], Found]]] = {
    "double-owner": double_owner,
    "stale-commit": stale_commit,
    "stale-beat": stale_beat,
    "lost-commit": lost_commit,
    "phantom-commit": phantom_commit,
    "unprocessed": unprocessed,
}

GROUP_CHECKS: Final[Mapping[str, str]] = {name: (found.__doc__ or "").strip() for name, found in _ALL.items()}
"""Each anomaly's name, and its meaning in one sentence."""


def check_groups(history: History) -> list[Anomaly]:
    """Find all anomalies of the consumer groups in a history."""
    return [Anomaly(name, where, message) for name, find in _ALL.items() for where, message in find(history)]
