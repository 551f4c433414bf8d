"""Causes in words, for people: the one place where these sentences are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Any

from purgatorio.broker.causes.cause import (
    Cause,
    FetchPosition,
    FollowerBehind,
    NoRecordsYet,
    OpenTransaction,
    ReplicationThrottled,
    TooFewInSync,
)
from purgatorio.broker.log.topic_partition import TopicPartition

TellFate = Callable[[OpenTransaction], str]
"""Says in a few words what will become of an open transaction; "" if nothing is known."""


def in_words(causes: Iterable[Cause], fate: TellFate = lambda transaction: "") -> str:
    """Return a sentence: "orders-0: broker 3 is at 40 of 42; bills-0: broker 2 has not fetched yet".

    Args:
        fate: is asked about each open transaction that is named.
    """
    said: list[str] = []
    for tp, same in groupby(causes, lambda cause: None if isinstance(cause, NoRecordsYet) else cause.tp):
        told = ", ".join(_say(each, fate) for each in same)
        said.append(told if tp is None else f"{tp}: {told}")
    return "; ".join(said)


def _say(cause: Cause, fate: TellFate) -> str:
    if isinstance(cause, FollowerBehind):
        if cause.at_offset < 0:
            return f"broker {cause.broker_id} has not fetched yet"
        return f"broker {cause.broker_id} is at {cause.at_offset} of {cause.wanted_offset}"
    if isinstance(cause, TooFewInSync):
        return f"{cause.in_sync_count} in-sync replicas, {cause.needed_count} needed"
    reader = "consumer" if cause.follower_id is None else f"follower {cause.follower_id}"
    places = ", ".join(_say_position(each, fate) for each in cause.positions)
    more = f" and {cause.more_count} more" if cause.more_count else ""
    return f"{reader} has {cause.available_bytes} of {cause.wanted_bytes} bytes: {places}{more}"


def _say_position(position: FetchPosition, fate: TellFate) -> str:
    held_back_by = position.held_back_by
    place = f"{position.tp} from {position.offset}"
    return place if held_back_by is None else f"{place} {_say_held_back(held_back_by, fate)}"


def _say_held_back(cause: OpenTransaction | ReplicationThrottled, fate: TellFate) -> str:
    if isinstance(cause, ReplicationThrottled):
        return f"waits, out of sync: replication of {cause.quota}"
    owner = f"`{cause.transactional_id}`" if cause.transactional_id else f"producer {cause.producer_id}"
    if cause.open_ms is None:
        return f"waits for the end of the transaction of {owner} to be committed"
    ends = fate(cause)
    return f"waits for the transaction of {owner} (open {cause.open_ms / 1000:.1f} s{ends and f', {ends}'})"


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
    return value
