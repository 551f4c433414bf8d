"""Waiting requests, grouped by cause: which broker, transaction, group, rule … keeps how many requests waiting, where.

The oldest operations of each purgatory are looked at, and stand for the others. `purgatorio.broker.causes.answers` says
each group in a sentence, once the rows of all brokers are known: whether the fetches of a broker are held is known to
that broker alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.causes.kinds import KINDS
from purgatorio.broker.causes.why import Actor, WaitPart, Why
from purgatorio.broker.causes.words import MAX_SHOWN, as_document, in_words
from purgatorio.broker.delays.finished import kind_of
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.purgatory import ParkedOperation, Purgatory
from purgatorio.purgatory.timer import MAX_DELAY_MS

LOOKED_AT: Final = 200
"""The oldest operations of each purgatory that are looked at; the others are taken to wait for the same."""
FIRST: Final = 20
"""Operations that are looked at first: if they wait for very much, no others are looked at."""
CAUSES_OF_FIRST: Final = 200
"""With more causes among the first, the others are skipped: a request may wait for thousands of partitions."""
NAMES: Final = 50
"""Clients and partitions of a group that are named; all others are counted."""
GROUPS: Final = 20


_Range = list[int]
"""The least and the most of a number."""


class _Group:
    """The operations that wait for one actor."""

    def __init__(self, cause: Any) -> None:
        self.cause = cause
        self.counts: dict[str, float] = {}
        self.is_estimated = False
        self.clients: dict[str, None] = {}
        self.tps: dict[TopicPartition, None] = {}
        self.behind = 0
        self.available_bytes: _Range | None = None
        self.wanted_bytes: _Range | None = None
        self.waited_ms = 0
        self.remaining_ms = MAX_DELAY_MS

    def add(self, parked: ParkedOperation, stands_for: float, now_ms: int) -> None:
        kind = kind_of(parked.purgatory, parked.keys).noun
        self.counts[kind] = self.counts.get(kind, 0) + stands_for
        self.is_estimated |= stands_for > 1
        self.clients[parked.client] = None
        self.waited_ms = max(self.waited_ms, now_ms - parked.parked_ms)
        self.remaining_ms = min(self.remaining_ms, parked.deadline_ms - now_ms)

    def as_answer(self, actor: Actor) -> Answer:
        is_holding = isinstance(self.cause, Why) and self.cause.is_holding
        return {
            "kind": actor.kind,
            "actor": actor.name[:MAX_SHOWN],
            "broker_ids": list(actor.broker_ids),
            "ordinary": actor.is_ordinary,
            "cause": as_document(self.cause, MAX_SHOWN),
            "missing": "" if is_holding else in_words([self.cause])[: 5 * MAX_SHOWN],
            "counts": {kind: round(number) for kind, number in self.counts.items()},
            "estimated": self.is_estimated,
            "clients": [client[:MAX_SHOWN] for client in islice(self.clients, NAMES)],
            "client_count": len(self.clients),
            "partitions": [str(tp) for tp in islice(self.tps, NAMES)],
            "partition_count": len(self.tps),
            "behind": self.behind,
            "available_bytes": self.available_bytes,
            "wanted_bytes": self.wanted_bytes,
            "waited_ms": self.waited_ms,
            "remaining_ms": self.remaining_ms,
        }


def read_waits(brokers: Iterable[Broker], image: ClusterImage) -> list[Answer]:
    """Return the groups, those of most operations first; an operation that waits for several actors is in each group.

    `counts` has numbers of operations by their kind, `estimated` ones if there were too many to look at all. `behind`
    is the most records that a follower lacks on a partition. `available_bytes` and `wanted_bytes` are the least and the
    most of fetches that have something to read, and wait for more; None of others. `waited_ms` is the longest time that
    one of them has waited, `remaining_ms` the shortest until a deadline. `ordinary` ones are long polls: there is no
    record yet.
    """
    groups: dict[Actor, _Group] = {}
    for broker in brokers:
        for purgatory in broker.purgatories:
            if purgatory.num_delayed and KINDS[purgatory.name].has_requests:
                _add(groups, purgatory, image)
    return _first([group.as_answer(actor) for actor, group in groups.items()])


def _add(groups: dict[Actor, _Group], purgatory: Purgatory[Any], image: ClusterImage) -> None:
    parked = purgatory.operations(FIRST)
    if purgatory.num_delayed > FIRST and sum(len(each.causes) for each in parked) <= CAUSES_OF_FIRST:
        parked = purgatory.operations(LOOKED_AT)
    stands_for, now_ms = purgatory.num_delayed / max(1, len(parked)), purgatory.now_ms()
    for each in parked:
        added: set[Actor] = set()
        for part in _parts(each, image):
            group = groups.get(part.actor)
            if group is None:
                group = groups[part.actor] = _Group(part.cause)
            if part.actor not in added:
                added.add(part.actor)
                group.add(each, stands_for, now_ms)
            group.tps.update(dict.fromkeys(part.tps))
            group.behind = max(group.behind, part.behind)
            if part.bytes is not None:
                available, wanted = part.bytes
                group.available_bytes = _joined(group.available_bytes, [available, available])
                group.wanted_bytes = _joined(group.wanted_bytes, [wanted, wanted])


def _joined(one: _Range | None, other: _Range | None) -> _Range | None:
    """Return the least and the most of two ranges."""
    if one is None or other is None:
        return one or other
    return [min(one[0], other[0]), max(one[1], other[1])]


def _parts(parked: ParkedOperation, image: ClusterImage) -> Iterator[WaitPart]:
    def absent(tp: TopicPartition) -> tuple[int, ...]:
        state = image.partition(*tp)
        return () if state is None else tuple(each for each in state.replicas if each not in state.isr_ids)

    if not parked.causes:
        yield WaitPart(Actor("", parked.purgatory), "an event on its keys")
    for cause in parked.causes:
        if isinstance(cause, Why):
            yield from cause.parts(absent)
        else:
            yield WaitPart(Actor(type(cause).__name__, ""), cause)


# --- of several processes ---


def merged_waits(groups: Iterable[Answer]) -> list[Answer]:
    """Return the groups of several processes as one process with all of their brokers has them."""
    merged: dict[tuple[str, str], Answer] = {}
    for each in groups:
        known = merged.get((each["kind"], each["actor"]))
        merged[each["kind"], each["actor"]] = each if known is None else _both(known, each)
    return _first(list(merged.values()))


def _both(one: Answer, other: Answer) -> Answer:
    kinds = dict.fromkeys((*one["counts"], *other["counts"]))
    clients = list(dict.fromkeys((*one["clients"], *other["clients"])))
    partitions = list(dict.fromkeys((*one["partitions"], *other["partitions"])))
    return {
        **one,
        "counts": {kind: one["counts"].get(kind, 0) + other["counts"].get(kind, 0) for kind in kinds},
        "estimated": one["estimated"] or other["estimated"],
        "clients": clients[:NAMES],
        "client_count": max(len(clients), one["client_count"], other["client_count"]),
        "partitions": partitions[:NAMES],
        "partition_count": _count(partitions, one["partition_count"], other["partition_count"]),
        "behind": max(one["behind"], other["behind"]),
        "available_bytes": _joined(one.get("available_bytes"), other.get("available_bytes")),
        "wanted_bytes": _joined(one.get("wanted_bytes"), other.get("wanted_bytes")),
        "waited_ms": max(one["waited_ms"], other["waited_ms"]),
        "remaining_ms": min(one["remaining_ms"], other["remaining_ms"]),
    }


def _count(names: Sequence[str], one: int, other: int) -> int:
    """Return how many partitions two processes see, which led different ones if there are too many to name."""
    return len(names) if max(one, other) <= NAMES else one + other


def _first(groups: list[Answer]) -> list[Answer]:
    """Return the worst groups: long polls are ordinary; then by their number, then by the longest wait."""
    ranked = sorted(groups, key=lambda each: (each["ordinary"], -sum(each["counts"].values()), -each["waited_ms"]))
    return ranked[:GROUPS]
