"""Causes in words, for people: the one place where these sentences are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import singledispatch
from itertools import islice
from typing import Any, Final

from purgatorio.broker.causes.cause import (
    DeadLettersNotWritten,
    FaultActs,
    FetchPosition,
    FirstMembersToJoin,
    FollowerBehind,
    LogStartBehind,
    MarkersMissing,
    MembersToJoin,
    MembersToSync,
    NoHeartbeat,
    NoLeader,
    NoRecordsYet,
    NoShareRecordsYet,
    NoShareSessionLeft,
    NotAcknowledged,
    NotDecided,
    NotInitialized,
    NotLeading,
    OnlyDeadline,
    OpenTransaction,
    QuotaExceeded,
    RecordsLocked,
    ReplicationThrottled,
    ShareCoordinatorFailed,
    SharePosition,
    ShareStateLoading,
    StateNotCommitted,
    TooFewInSync,
    TransactionNotConfirmed,
    TransactionNotEnded,
    UnwrittenMarker,
)
from purgatorio.broker.log.topic_partition import TopicPartition

MAX_NAMED: Final = 5
"""The most partitions or members that a sentence names, and that causes hold."""
MAX_SHOWN: Final = 100
"""The most characters of an id that pages and events show."""

TellFate = Callable[[OpenTransaction], str]
"""Says in a few words what will become of an open transaction; "" if nothing is known."""


def in_words(causes: Iterable[Any], fate: TellFate = lambda transaction: "") -> str:
    """Return a sentence: "orders-0 and orders-1: broker 3 is at 40 of 42; bills-0: broker 2 has not fetched yet".

    It names each partition once, and partitions that wait for the same together.

    Args:
        causes: each a `Cause`, or anything else that says itself by `str`.
        fate: is asked about each open transaction that is named.
    """
    said: dict[Any, list[str]] = {}
    for number, cause in enumerate(causes):
        said.setdefault(getattr(cause, "tp", number), []).append(_say_one(cause, fate))
    alike: dict[str, list[TopicPartition]] = {}
    for place, told_of_it in said.items():
        partitions = alike.setdefault(", ".join(told_of_it), [])
        if isinstance(place, TopicPartition):
            partitions.append(place)
    return "; ".join(f"{listed(tps)}: {told}" if tps else told for told, tps in alike.items())


def listed(names: Sequence[object], more_count: int = 0) -> str:
    """Return names in a sentence, of many the first ones: "a", "a and b", "a, b and 7 more"."""
    first = [str(name) for name in islice(names, MAX_NAMED)]
    more_count += len(names) - len(first)
    if more_count:
        first.append(f"{more_count} more")
    return f"{', '.join(first[:-1])} and {first[-1]}" if len(first) > 1 else "".join(first)


def shortened(an_id: str) -> str:
    """Return an id, cut if it is very long: clients choose those of groups and transactions, of up to 32 KiB."""
    return an_id if len(an_id) <= MAX_SHOWN else f"{an_id[:MAX_SHOWN]}…"


@singledispatch
def _say(cause: object) -> str:
    return str(cause)


# --- replicas ---


@_say.register
def _(cause: FollowerBehind) -> str:
    if cause.at_offset < 0:
        return f"broker {cause.broker_id} has not fetched yet"
    return f"broker {cause.broker_id} is at {cause.at_offset} of {cause.wanted_offset}"


@_say.register
def _(cause: LogStartBehind) -> str:
    if cause.at_offset < 0:
        return f"broker {cause.broker_id} has not fetched yet"
    return f"broker {cause.broker_id} starts at {cause.at_offset} of {cause.wanted_offset}"


@_say.register
def _(cause: TooFewInSync) -> str:
    return f"{cause.in_sync_count} in-sync replicas, {cause.needed_count} needed"


def _say_one(cause: Any, fate: TellFate) -> str:
    if isinstance(cause, NoRecordsYet):
        return _say_fetch(cause, fate)
    if isinstance(cause, NoShareRecordsYet):
        return _say_share_fetch(cause, fate)
    return _say(cause)


def _say_fetch(cause: NoRecordsYet, fate: TellFate) -> str:
    reader = "consumer" if cause.follower_id is None else f"follower {cause.follower_id}"
    places = ", ".join(_say_position(each, fate) for each in cause.positions)
    return f"{reader} has {cause.available_bytes} of {cause.wanted_bytes} bytes: {places}{_and_more(cause.more_count)}"


def _say_position(position: FetchPosition, fate: TellFate) -> str:
    held_back_by = position.held_back_by
    place = f"{position.tp} from {position.offset}"
    return place if held_back_by is None else f"{place} {_say_held_back(held_back_by, fate)}"


def _say_held_back(cause: OpenTransaction | ReplicationThrottled, fate: TellFate) -> str:
    if isinstance(cause, ReplicationThrottled):
        rate = f"{_bytes_per_second(cause.bytes_per_second)} of {_bytes_per_second(cause.limit)}"
        return f"waits, out of sync: replication of {rate}"
    owner = f"`{shortened(cause.transactional_id)}`" if cause.transactional_id else f"producer {cause.producer_id}"
    if cause.open_ms is None:
        return f"waits for the end of the transaction of {owner} to be committed"
    ends = fate(cause)
    return f"waits for the transaction of {owner} (open {cause.open_ms / 1000:.1f} s{ends and f', {ends}'})"


def _and_more(count: int) -> str:
    return f" and {count} more" if count else ""


# --- share groups ---


@_say.register
def _(cause: NoShareSessionLeft) -> str:
    return cause.why


def _say_share_fetch(cause: NoShareRecordsYet, fate: TellFate) -> str:
    places = ", ".join(_say_share_position(each, fate) for each in cause.positions)
    group = f"group `{shortened(cause.group_id)}`"
    return f"{group} has {cause.available_bytes} of {cause.wanted_bytes} bytes: {places}{_and_more(cause.more_count)}"


def _say_share_position(position: SharePosition, fate: TellFate) -> str:
    held_back_by = position.held_back_by
    if isinstance(held_back_by, ShareStateLoading):
        return f"{position.tp} until the leader has read the group's state"
    place = f"{position.tp} from {position.offset}"
    if isinstance(held_back_by, RecordsLocked):
        return f"{place}, as members have {held_back_by.locked_count} records, the most at a time"
    return place if held_back_by is None else f"{place} {_say_held_back(held_back_by, fate)}"


# --- changes of the cluster ---


@_say.register
def _(cause: NotDecided) -> str:
    return "the metadata store has not decided yet"


@_say.register
def _(cause: NoLeader) -> str:
    return "no leader yet"


@_say.register
def _(cause: NotLeading) -> str:
    return f"broker {cause.broker_id} does not lead yet"


# --- groups ---


@_say.register
def _(cause: MembersToJoin) -> str:
    awaited = [_members(cause)] if cause.members else []
    if cause.new_count:
        awaited.append(f"{cause.new_count} new member id{'s' * (cause.new_count > 1)} to join")
    return f"rebalance of {shortened(cause.group_id)} waits for {' and for '.join(awaited)}"


@_say.register
def _(cause: FirstMembersToJoin) -> str:
    return f"first rebalance of {shortened(cause.group_id)} waits for more members; {cause.joined_count} joined so far"


@_say.register
def _(cause: MembersToSync) -> str:
    leader = cause.leader
    awaited = _members(cause) if leader is None else f"the assignment of leader {shortened(leader.name)}"
    return f"generation {cause.generation} of {shortened(cause.group_id)} waits for {awaited}"


@_say.register
def _(cause: NoHeartbeat) -> str:
    return f"no heartbeat of member {shortened(cause.member_id)} of {shortened(cause.group_id)} yet"


@_say.register
def _(cause: NotInitialized) -> str:
    partitions = ", ".join(map(str, cause.partitions)) + _and_more(cause.more_count)
    state = f"could not initialize its state ({cause.error}), and will be asked again" if cause.error else ""
    state = state or "has not initialized its state yet"
    return f"{shortened(cause.group_id)} waits for {partitions}: the share coordinator {state}"


@_say.register
def _(cause: NotAcknowledged) -> str:
    count = cause.last_offset - cause.first_offset + 1
    offsets = str(cause.first_offset) if count == 1 else f"{cause.first_offset} to {cause.last_offset}"
    said = [] if cause.held_count == count else [f"{cause.held_count} of {count} left"]
    if cause.delivery_count > 1:
        said.append(f"delivery {cause.delivery_count}")
    details = f" ({', '.join(said)})" if said else ""
    return f"member {shortened(cause.member_id)} of {shortened(cause.group_id)} has not acknowledged {offsets}{details}"


def _members(cause: MembersToJoin | MembersToSync) -> str:
    names = [shortened(member.name) for member in cause.members]
    return f"member{'s' * (len(names) + cause.more_count > 1)} {listed(names, cause.more_count)}"


# --- transactions ---


@_say.register
def _(cause: TransactionNotConfirmed) -> str:
    partitions = ", ".join(map(str, cause.partitions)) + _and_more(cause.more_count)
    owner = f"`{shortened(cause.transactional_id)}`"
    return f"the coordinator of {owner} has not confirmed that its transaction includes {partitions}"


@_say.register
def _(cause: TransactionNotEnded) -> str:
    partitions = "1 partition" if cause.partition_count == 1 else f"{cause.partition_count} partitions"
    return f"the transaction of {shortened(cause.transactional_id)} is open, with {partitions}"


@_say.register
def _(cause: StateNotCommitted) -> str:
    return f"the transaction of {shortened(cause.transactional_id)} becomes {cause.state} when the replicas have it"


@_say.register
def _(cause: MarkersMissing) -> str:
    markers = ", ".join(map(_say_marker, cause.markers)) + _and_more(cause.more_count)
    named = f"the markers of {markers}" if markers else "its markers"
    return f"the transaction of {shortened(cause.transactional_id)} waits for {named}"


def _say_marker(marker: UnwrittenMarker) -> str:
    leader = "no leader" if marker.leader_id is None else f"broker {marker.leader_id}"
    return f"{marker.tp} ({leader}{marker.error and f': {marker.error}'})"


# --- share groups ---


@_say.register
def _(cause: ShareCoordinatorFailed) -> str:
    call = f"the call to {cause.verb} the state of share group {shortened(cause.group_id)}"
    if cause.broker_id is None:
        return f"{call} has no broker to go to"
    return f"{call} failed at broker {cause.broker_id} ({cause.error}), with {cause.retries_left} retries left"


@_say.register
def _(cause: DeadLettersNotWritten) -> str:
    letters = f"the dead letters of share group {shortened(cause.group_id)} from {cause.source}"
    at = "" if cause.broker_id is None else f" by broker {cause.broker_id}"
    return f"{letters} could not be written{at} ({cause.error}), with {cause.tries_left} tries left"


# --- the layers before the handlers ---


@_say.register
def _(cause: FaultActs) -> str:
    return f"{cause.api}: {cause.fault} {_ACTIONS[cause.action].format(cause.delay_ms)}"


_ACTIONS: Final = {
    "hold": "holds it until it is released",
    "delay_ms": "delays it by {} ms",
    "answer_delay_ms": "delays its answer by {} ms",
    "drop": "never answers it",
}


@_say.register
def _(cause: QuotaExceeded) -> str:
    client = [f"user `{cause.user}`"] if cause.user else []
    if cause.client_id or not client:
        client.append(f"client `{cause.client_id}`")
    time = f"{cause.muted_ms} ms" if cause.muted_ms < 100 else f"{cause.muted_ms / 1_000:.1f} s"
    over, shown = _QUOTAS.get(cause.quota, ("", _bytes_per_second))
    rate = f"{over}{shown(cause.used)} of {shown(cause.limit)}"
    return f"{' with '.join(client)} is muted for {time}: {rate}, rule: {cause.rule}"


@_say.register
def _(cause: OnlyDeadline) -> str:
    return "its deadline, and no event"


def _bytes_per_second(rate: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g} {unit}/s"
    return f"{rate:.3g} B/s"


_QUOTAS: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "Request": ("request time of ", lambda percent: f"{percent:.3g} %"),
    "ControllerMutation": ("overdrawn by ", lambda partitions: f"{partitions:.3g} partitions/s"),
}


def as_document(value: Any, max_chars: int) -> Any:
    """Return a cause as JSON has it: an object with its kind, such as "FollowerBehind", and its fields.

    Args:
        max_chars: the length to which texts are cut: clients choose ids.
    """
    if isinstance(value, str):
        return value[:max_chars]
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, tuple):
        return [as_document(each, max_chars) for each in value]
    if is_dataclass(value):
        made = {each.name: as_document(getattr(value, each.name), max_chars) for each in fields(value)}
        return {"kind": type(value).__name__, **made}
    return value if value is None or isinstance(value, (int, float)) else str(value)
