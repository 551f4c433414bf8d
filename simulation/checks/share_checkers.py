"""The checks of share groups: which member has which records, and whether each record is processed (KIP-932).

A member has a record from the answer that acquires it until the member acknowledges it, its lock may be over, or the
broker ends the lock (`ShareEnded`). A broker acquires and writes at some time between a request and its answer; so only
what is certain for all of these times is an anomaly.

The cost is O(n) in deliveries of records, but O(n²) in those of one record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from purgatorio.broker.share.acknowledging import AcknowledgeType
from purgatorio.broker.share.dead_letters.queue import MAX_TRIES
from purgatorio.protocol.dead_letter import DELIVERY_LIMIT
from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.history.history import (
    Acked,
    Cleaned,
    GroupTransforms,
    History,
    LeaderElected,
    Polled,
    TopicRecreated,
    TxnEnded,
    TxnWrote,
    UncleanElection,
)
from purgatorio.simulation.history.partition_history import ALL_REPLICAS
from purgatorio.simulation.history.share_events import (
    DeadLetter,
    DeadLetterPromise,
    DeadLettersLost,
    ShareAcknowledged,
    ShareAcquired,
    ShareEnded,
    ShareGivenUp,
    SharePromise,
    ShareWriteFailed,
)
from purgatorio.simulation.history.transaction_history import COMMITTED

Found = Iterator[tuple[str, str]]
"""Where an anomaly is, and its description."""

FINAL: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.GAP)
"""After these a record is never delivered again."""
DONE: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.GAP)
"""After these a record is not given up."""
FASTEST: Final = 0.9
"""A lock lasts at least this share of its time, by the clock of a broker that is too fast."""


class _Decision(NamedTuple):
    """A member's acknowledgement of one record."""

    type: int
    event: ShareAcknowledged


@dataclass(slots=True)
class _Share:
    """The history of one share partition, by offset where that makes sense."""

    promise: SharePromise
    partition: str
    acquired: dict[int, list[ShareAcquired]] = field(default_factory=dict)
    decisions: dict[int, list[_Decision]] = field(default_factory=dict)
    ended: list[ShareEnded] = field(default_factory=list)
    elected_ms: list[int] = field(default_factory=list)
    failed_count: int = 0

    @property
    def where(self) -> str:
        """The group and the partition."""
        return f"{self.promise.group} {self.partition}"

    def take(self, event: ShareAcquired | ShareAcknowledged | ShareEnded | ShareWriteFailed) -> None:
        """Add an event to those of its records."""
        match event:
            case ShareAcquired():
                for offset in range(event.first_offset, event.last_offset + 1):
                    self.acquired.setdefault(offset, []).append(event)
            case ShareAcknowledged():
                for nth in range(event.last_offset - event.first_offset + 1):
                    decision = _Decision(event.types[nth if len(event.types) > 1 else 0], event)
                    self.decisions.setdefault(event.first_offset + nth, []).append(decision)
            case ShareEnded():
                self.ended.append(event)
            case ShareWriteFailed():
                self.failed_count += 1

    def holds(self, offset: int, event: ShareAcquired) -> Iterator[tuple[int, float]]:
        """Iterate over the times in which a member certainly has a record that it acquired, from and to.

        Each renewal that was answered begins another one.
        """
        lock_ms = FASTEST * self.promise.lock_ms
        mine = [each for each in self.decisions.get(offset, ()) if each.event.member == event.member]
        begun = [(event.time_ms, event.asked_ms)]
        begun += [
            (each.event.time_ms, each.event.asked_ms)
            for each in mine
            if each.type == AcknowledgeType.RENEW
            and each.event.outcome == "acked"
            and each.event.asked_ms >= event.time_ms
        ]
        over = self.over(event.member)
        for from_ms, asked_ms in begun:
            ends = [asked_ms + lock_ms]
            ends += [each.event.asked_ms for each in mine if each.event.asked_ms >= from_ms]
            ends += [time_ms for time_ms in over if time_ms >= asked_ms]
            yield from_ms, min(ends)

    def over(self, member: str) -> list[int]:
        """Return the times at which brokers ended all locks of a member, or may have."""
        return [each.time_ms for each in self.ended if each.member in ("", member)] + self.elected_ms

    def counts(self, offset: int, decision: _Decision) -> bool:
        """Return whether a decision certainly counts: the member had the record from its request to the answer.

        A record below the start offset may be acknowledged again, also by a member whose lock has run out.
        """
        event, lock_ms = decision.event, FASTEST * self.promise.lock_ms
        for acquired in self.acquired.get(offset, ()):
            is_held = acquired.time_ms <= event.asked_ms and event.time_ms < acquired.asked_ms + lock_ms
            if acquired.member == event.member and is_held:
                others = [each.event.asked_ms for each in self.decisions[offset] if each.event.member == event.member]
                others.remove(event.asked_ms)
                times = [*others, *self.over(event.member)]
                if not any(acquired.asked_ms <= time_ms <= event.time_ms for time_ms in times):
                    return event.outcome == "acked"
        return False


def _shares(history: History) -> list[_Share]:
    promises = {event.group: event for event in history.of(SharePromise)}
    found: dict[tuple[str, str], _Share] = {}
    for event in history if promises else ():
        if isinstance(event, (ShareAcquired, ShareAcknowledged, ShareEnded, ShareWriteFailed)):
            key = event.group, event.partition
            if key not in found:
                found[key] = _Share(promises[event.group], event.partition)
            found[key].take(event)
    for event in history.of(LeaderElected) if found else ():
        for (_, partition), share in found.items():
            if partition == event.partition:
                share.elected_ms.append(event.time_ms)
    return list(found.values())


def _had(event: ShareAcquired) -> str:
    return (
        f"{event.member} got it at {event.time_ms} ms, asked at {event.asked_ms} ms, as delivery {event.delivery_count}"
    )


def double_acquire(history: History) -> Found:
    """A record was acquired by a member while another one certainly had it."""
    for share in _shares(history):
        for offset, events in share.acquired.items():
            holds = [(event, *hold) for event in events if len(events) > 1 for hold in share.holds(offset, event)]
            for event, from_ms, to_ms in holds:
                for other in events:
                    if other is not event and from_ms < other.asked_ms and other.time_ms < to_ms:
                        yield share.where, f"offset {offset}: {_had(event)}, until {to_ms:.0f} ms; {_had(other)}"


def redelivered(history: History) -> Found:
    """A record was delivered again after a member's ACCEPT, REJECT or gap had been acknowledged."""
    for share in _shares(history):
        for offset, decisions in share.decisions.items():
            ends = [each for each in decisions if each.event.outcome == "acked" and each.type in FINAL]
            if not ends:
                continue
            end = min(ends, key=lambda each: each.event.time_ms)
            for again in share.acquired.get(offset, ()):
                if again.asked_ms > end.event.time_ms:
                    kind = AcknowledgeType(end.type).name.lower()
                    done = f"{end.event.member} was told at {end.event.time_ms} ms that it has the {kind}"
                    yield share.where, f"offset {offset}: {done}; {_had(again)}"
                    break


def over_delivered(history: History) -> Found:
    """A record was delivered more often than the limit allows, but for deliveries that a leader could not write."""
    for share in _shares(history):
        limit = share.promise.delivery_limit
        fenced_count = sum(not each.member for each in share.ended) + len(share.elected_ms) + share.failed_count
        for offset, events in share.acquired.items():
            highest = max(event.delivery_count for event in events)
            if highest > limit:
                yield share.where, f"offset {offset} was delivered for the {highest}th time; the limit is {limit}"
            elif len(events) > limit + fenced_count:
                yield share.where, f"offset {offset} was delivered {len(events)} times; the limit is {limit}"


def stale_acknowledgement(history: History) -> Found:
    """A member's acknowledgement was accepted, though another member had the record by then."""
    for share in _shares(history):
        for offset, decisions in share.decisions.items():
            events = share.acquired.get(offset, [])
            for each in decisions:
                event = each.event
                if event.outcome == "acked":
                    holder = _other_holder(share, offset, events, event)
                    if holder is not None:
                        what = f"{event.member} told of it at {event.asked_ms} ms, and was told at {event.time_ms} ms"
                        yield share.where, f"offset {offset}: {_had(holder)}; {what} that it counts"
                        break


def _other_holder(
    share: _Share, offset: int, events: Iterable[ShareAcquired], decided: ShareAcknowledged
) -> ShareAcquired | None:
    """Return another member's delivery that certainly held a record for all the time of a request, or None."""
    for event in events:
        if event.member != decided.member:
            for from_ms, to_ms in share.holds(offset, event):
                if from_ms < decided.asked_ms and decided.time_ms < to_ms:
                    return event
    return None


def unlike_records(history: History) -> Found:
    """An offset was delivered with another value than the one that was acknowledged there (acks=-1)."""
    if not any(history.of(SharePromise)):
        return
    lossy = _lossy(history, deletes=False)
    acked = {
        (ack.partition, ack.offset): ack.value
        for ack in history.of(Acked)
        if ack.acks == ALL_REPLICAS and ack.offset >= 0 and ack.partition not in lossy
    }
    for event in history.of(ShareAcquired):
        for offset, value in event.values:
            expected = acked.get((event.partition, offset), value)
            if expected != value:
                yield f"{event.group} {event.partition}", f"offset {offset} has {expected}, {event.member} got {value}"


def undelivered(history: History) -> Found:
    """An acknowledged value (acks=-1) was never delivered to a share group, though its log loses no record."""
    lossy = _lossy(history, deletes=True)
    committed = {event.txn for event in history.of(TxnEnded) if event.outcome == COMMITTED}
    uncertain = {event.value for event in history.of(TxnWrote) if event.txn not in committed}  # they may be aborted
    outputs = {event.output for event in history.of(GroupTransforms)}  # no share group consumes them
    owed = [
        ack
        for ack in history.of(Acked)
        if ack.acks == ALL_REPLICAS
        and ack.partition not in lossy
        and ack.value not in uncertain
        and ack.partition.rpartition("-")[0] not in outputs
    ]
    for promise in history.of(SharePromise):
        got = {
            (event.partition, value)
            for event in history.of(ShareAcquired)
            if event.group == promise.group
            for _, value in event.values
        }
        missed: dict[str, list[Acked]] = {}
        for ack in owed:
            if (ack.partition, ack.value) not in got:
                missed.setdefault(ack.partition, []).append(ack)
        for partition, acks in missed.items():
            first = f"{acks[0].value}, acknowledged at offset {acks[0].offset} at {acks[0].time_ms} ms"
            yield promise.group, f"no member got {len(acks)} values of {partition}; the first is {first}"


# --- dead letters ---


def lost_dead_letter(history: History) -> Found:
    """A record that no member may have accepted has ended without a dead letter, and no leader had to give that up."""
    promised = {event.group for event in history.of(DeadLetterPromise)}
    kept, there = _kept(history), _letters(history)
    for share in _shares(history) if promised else ():
        if share.promise.group not in promised:
            continue
        for offset, events in share.acquired.items():
            decisions = share.decisions.get(offset, ())
            is_done = any(each.type in DONE and each.event.outcome != "refused" for each in decisions)
            is_there = (share.promise.group, share.partition, offset) in there
            if not is_done and not is_there and (share.partition, offset) in kept:
                yield share.where, f"offset {offset} was accepted by no member: {_had(events[-1])}"


def owed_dead_letter(history: History) -> Found:
    """It was written that a record is given up, the log has the record, and it has no dead letter in the end."""
    given_up = list(history.of(ShareGivenUp))
    if not given_up:
        return
    kept, there = _kept(history), _letters(history)
    for event in given_up:
        where = event.group, event.partition
        for offset in range(event.first_offset, event.last_offset + 1):
            if (event.partition, offset) in kept and (*where, offset) not in there:
                there.add((*where, offset))
                written = f"written as given up at {event.time_ms} ms, after {event.delivery_count} deliveries"
                yield f"{event.group} {event.partition}", f"offset {offset} was {written}"


def _kept(history: History) -> set[tuple[str, int]]:
    """Return the records that are in their logs when all is quiet, with their first values, by partition and offset."""
    lossy = _lossy(history, deletes=False)
    return {
        (event.partition, offset)
        for event in history.of(Polled)
        if event.final and event.partition not in lossy
        for offset, _ in event.records
    }


def _letters(history: History) -> set[tuple[str, str, int]]:
    """Return the records that have dead letters, or of which a leader said that it has tried that often enough."""
    there = {(event.group, event.partition, event.offset) for event in history.of(DeadLetter)}
    for event in history.of(DeadLettersLost):
        if event.why.startswith(f"{MAX_TRIES} tries"):
            offsets = range(event.first_offset, event.last_offset + 1)
            there.update((event.group, event.partition, offset) for offset in offsets)
    return there


def letter_of_accepted(history: History) -> Found:
    """A record has a dead letter, though a member had accepted it and the broker had confirmed that."""
    letters: dict[tuple[str, str], dict[int, str]] = {}
    for event in history.of(DeadLetter):
        letters.setdefault((event.group, event.partition), {})[event.offset] = event.message
    for share in _shares(history) if letters else ():
        is_shaken = share.failed_count or share.elected_ms or any(not each.member for each in share.ended)
        for offset, message in letters.get((share.promise.group, share.partition), {}).items():
            if is_shaken and message == DELIVERY_LIMIT:
                continue  # a leader gives it up before that is written
            for each in share.decisions.get(offset, ()):
                if each.type == AcknowledgeType.ACCEPT and share.counts(offset, each):
                    accepted = f"{each.event.member} was told at {each.event.time_ms} ms that it is accepted"
                    yield share.where, f"offset {offset}: {accepted}; its dead letter says: {message}"
                    break


def _lossy(history: History, *, deletes: bool) -> set[str]:
    """Return the partitions whose records may go, or have another offset later."""
    kinds = (Cleaned, TopicRecreated, UncleanElection) if deletes else (TopicRecreated, UncleanElection)
    return {event.partition for event in history if isinstance(event, kinds)}


_ALL: Final[Mapping[str, Callable[[History], Found]]] = {
    "double-acquire": double_acquire,
    "redelivered": redelivered,
    "over-delivered": over_delivered,
    "stale-acknowledgement": stale_acknowledgement,
    "unlike-records": unlike_records,
    "undelivered": undelivered,
    "lost-dead-letter": lost_dead_letter,
    "owed-dead-letter": owed_dead_letter,
    "letter-of-accepted": letter_of_accepted,
}

SHARE_CHECKS: Final[Mapping[str, str]] = {name: (found.__doc__ or "").strip() for name, found in _ALL.items()}
"""Each anomaly's name, and its meaning in one sentence."""


def check_shares(history: History) -> list[Anomaly]:
    """Find all anomalies of the share groups in a history."""
    return [Anomaly(name, where, message) for name, find in _ALL.items() for where, message in find(history)]
