"""Judges histories: the names are those of Jepsen's Kafka workload, the meaning of each is in `CHECKS`.

The checks know of no cluster and no simulator, only of what clients saw. What a cluster does not promise is no anomaly:
a write that was acknowledged by its leader alone (acks=1) may be lost, and its offset given to another value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from broker.simulation.history import (
    Acked,
    Assigned,
    Drained,
    Event,
    Failed,
    FencedAnswer,
    History,
    Polled,
    Sent,
    UncleanElection,
)

ALL_REPLICAS: Final = -1


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that must not happen, and did."""

    name: str
    partition: str
    message: str

    def __str__(self) -> str:
        return f"{self.name} {self.partition}: {self.message}"


class _Facts:
    """What most of the checks need, gathered once.

    Attributes:
        promised: what was acknowledged with acks=-1, but for what an unclean election has given up.
        seen: for each partition and value, the offsets that it was polled at, in the order of the polls.
        values: for each partition and offset, the values that were polled there.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.sent: dict[tuple[str, int], Sent] = {}
        self.promised: list[Acked] = []
        self.seen: dict[tuple[str, int], dict[int, Polled]] = {}
        self.values: dict[tuple[str, int], dict[int, Polled]] = {}
        self.highest: dict[str, int] = {}
        given_up: set[str] = set()
        acked: list[Acked] = []
        for event in history:
            if isinstance(event, Sent):
                self.sent[event.partition, event.value] = event
            elif isinstance(event, Acked) and event.acks == ALL_REPLICAS:
                acked.append(event)
            elif isinstance(event, Polled):
                self._polled(event)
            elif isinstance(event, UncleanElection):
                given_up.add(event.partition)
                acked = [each for each in acked if each.partition != event.partition]
        self.promised = acked
        self.given_up = given_up

    def _polled(self, poll: Polled) -> None:
        for offset, value in poll.records:
            self.seen.setdefault((poll.partition, value), {}).setdefault(offset, poll)
            self.values.setdefault((poll.partition, offset), {}).setdefault(value, poll)
            self.highest[poll.partition] = max(offset, self.highest.get(poll.partition, -1))


def _acked(ack: Acked) -> str:
    return f"{ack.value} of {ack.producer} was acknowledged at offset {ack.offset} at {ack.time_ms} ms"


def lost_write(facts: _Facts) -> Iterator[Anomaly]:
    """An acknowledged value (acks=-1) is in no poll, though polls went past its offset."""
    for ack in facts.promised:
        if (ack.partition, ack.value) not in facts.seen and 0 <= ack.offset <= facts.highest.get(ack.partition, -1):
            yield Anomaly("lost-write", ack.partition, f"{_acked(ack)}, and was never polled")


def unseen(facts: _Facts) -> Iterator[Anomaly]:
    """An acknowledged value (acks=-1) was not there when everything was read after the faults had healed."""
    drained = {event.partition: event for event in facts.history.of(Drained)}
    final = {(poll.partition, value) for poll in facts.history.of(Polled) if poll.final for _, value in poll.records}
    for ack in facts.promised:
        if ack.partition in drained and (ack.partition, ack.value) not in final:
            end = drained[ack.partition]
            yield Anomaly(
                "unseen",
                ack.partition,
                f"{_acked(ack)}, and is not among offsets {end.start_offset} to {end.end_offset} in the end",
            )


def g1a(facts: _Facts) -> Iterator[Anomaly]:
    """A value whose send has certainly failed was polled."""
    for event in facts.history.of(Failed):
        for offset, poll in facts.seen.get((event.partition, event.value), {}).items():
            failed = f"{event.value} failed at {event.time_ms} ms ({event.reason})"
            yield Anomaly("G1a", event.partition, f"{failed}, and {poll.consumer} polled it at offset {offset}")


def phantom(facts: _Facts) -> Iterator[Anomaly]:
    """A value was polled that nobody sent to that partition."""
    for (partition, value), offsets in facts.seen.items():
        if (partition, value) not in facts.sent:
            yield Anomaly("phantom", partition, f"{value} was polled at offset {next(iter(offsets))}; nobody sent it")


def inconsistent_offsets(facts: _Facts) -> Iterator[Anomaly]:
    """Two values were polled at one offset, or one was polled where another was acknowledged (acks=-1)."""
    for (partition, offset), values in facts.values.items():
        if len(values) > 1 and partition not in facts.given_up:
            told = " and ".join(f"{value} by {poll.consumer} at {poll.time_ms} ms" for value, poll in values.items())
            yield Anomaly("inconsistent-offsets", partition, f"offset {offset} held {told}")
    for ack in facts.promised:
        polled = facts.values.get((ack.partition, ack.offset), {})
        if polled and ack.value not in polled:
            yield Anomaly(
                "inconsistent-offsets", ack.partition, f"{_acked(ack)}; polled there was {next(iter(polled))}"
            )


def duplicate(facts: _Facts) -> Iterator[Anomaly]:
    """One value of an idempotent producer was polled at two offsets."""
    for (partition, value), offsets in facts.seen.items():
        if len(offsets) > 1 and partition not in facts.given_up:
            yield Anomaly("duplicate", partition, f"{value} was polled at offsets {', '.join(map(str, offsets))}")


def nonmonotonic_send(facts: _Facts) -> Iterator[Anomaly]:
    """An idempotent producer's acknowledged value lies at an earlier offset than one acknowledged before it."""
    placed: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for ack in facts.history.of(Acked):
        offsets = facts.seen.get((ack.partition, ack.value))
        sent = facts.sent.get((ack.partition, ack.value))
        if offsets and sent is not None and ack.partition not in facts.given_up:
            row = placed.setdefault((ack.partition, ack.producer), [])
            row.append((sent.sequence, min(offsets), ack.value))
    for (partition, producer), row in placed.items():
        row.sort()
        for (_, before, earlier), (_, after, later) in itertools.pairwise(row):
            if after < before:
                yield Anomaly(
                    "nonmonotonic-send",
                    partition,
                    f"{producer} sent {earlier} before {later}; they lie at {before} and {after}",
                )


def _walk(history: History) -> Iterator[tuple[int | None, Polled, int]]:
    """Each polled record: the offset before it on the same assignment (None: it is the first), its poll and offset."""
    positions: dict[tuple[str, str], int | None] = {}
    for event in history:
        if isinstance(event, Assigned):
            positions[event.consumer, event.partition] = None
        elif isinstance(event, Polled):
            key = (event.consumer, event.partition)
            for offset, _ in event.records:
                yield positions.get(key), event, offset
                positions[key] = offset


def nonmonotonic_poll(facts: _Facts) -> Iterator[Anomaly]:
    """On one assignment a consumer received an offset that does not lie after the one before."""
    for before, poll, offset in _walk(facts.history):
        if before is not None and offset <= before:
            yield Anomaly(
                "nonmonotonic-poll", poll.partition, f"{poll.consumer} received offset {offset} after {before}"
            )


def poll_skip(facts: _Facts) -> Iterator[Anomaly]:
    """On one assignment a consumer went past an offset that others received a value at."""
    for before, poll, offset in _walk(facts.history):
        if before is None or poll.partition in facts.given_up:
            continue
        for skipped in range(before + 1, offset):
            if (poll.partition, skipped) in facts.values:
                yield Anomaly(
                    "poll-skip",
                    poll.partition,
                    f"{poll.consumer} received {before} and then {offset}; others received a value at {skipped}",
                )


def precommitted_read(facts: _Facts) -> Iterator[Anomaly]:
    """A record was polled at or past the high watermark that was told with it."""
    for poll in facts.history.of(Polled):
        if poll.high_watermark >= 0 and poll.records and poll.records[-1][0] >= poll.high_watermark:
            yield Anomaly(
                "precommitted-read",
                poll.partition,
                f"{poll.consumer} received offset {poll.records[-1][0]} with high watermark {poll.high_watermark}",
            )


def fenced_answer(facts: _Facts) -> Iterator[Anomaly]:
    """A broker answered as leader after the cluster had fenced it."""
    for event in facts.history.of(FencedAnswer):
        yield Anomaly("fenced-answer", event.partition, f"broker {event.broker} at {event.time_ms} ms: {event.what}")


_IDEMPOTENT: Final = (duplicate, nonmonotonic_send)
_ALL: Final[tuple[Callable[[_Facts], Iterator[Anomaly]], ...]] = (
    lost_write,
    unseen,
    g1a,
    phantom,
    inconsistent_offsets,
    *_IDEMPOTENT,
    nonmonotonic_poll,
    poll_skip,
    precommitted_read,
    fenced_answer,
)

CHECKS: Final = {
    ("G1a" if check is g1a else check.__name__.replace("_", "-")): (check.__doc__ or "").strip() for check in _ALL
}
"""Each anomaly's name, and in one sentence what it is."""


def check(history: History, *, idempotent: bool = True) -> list[Anomaly]:
    """Find every anomaly of a history.

    Args:
        idempotent: whether its producers were, so that no value may be there twice or out of order.
    """
    facts = _Facts(history)
    return [anomaly for each in _ALL if idempotent or each not in _IDEMPOTENT for anomaly in each(facts)]


def events_about(history: History, value: int) -> list[Event]:
    """The events that mention a value, for whoever looks into an anomaly."""
    return [
        event
        for event in history
        if getattr(event, "value", None) == value
        or (isinstance(event, Polled) and any(polled == value for _, polled in event.records))
    ]
