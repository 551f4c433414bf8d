"""The high watermarks that brokers reported of a partition, by their answers to fetches and by their acknowledgements.

A leader's high watermark never goes back while its epoch lasts, and an acknowledgement (acks=-1) says that it has
passed the record. A new leader may know less for a moment, since followers learn the high watermark one fetch later.
But a former leader has to stop before its lease ends: it answers nothing after its successor's first acknowledgement.

An answer counts as later than another only if its request was sent after the other had arrived.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from purgatorio.simulation.history.history import Acked, Polled


@dataclass(slots=True)
class _Proofs:
    """What one broker told in one leader epoch, in the order of the history.

    Attributes:
        places: the places of the events in the history.
        times_ms: their times.
        highest: up to each event, the one that told the highest high watermark, and that.
    """

    places: list[int] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    highest: list[tuple[int, Acked | Polled]] = field(default_factory=list)

    def add(self, place: int, high_watermark: int, event: Acked | Polled) -> None:
        before = self.highest[-1] if self.highest else (-1, event)
        self.places.append(place)
        self.times_ms.append(event.time_ms)
        self.highest.append((high_watermark, event) if high_watermark > before[0] else before)

    def before(self, poll: Polled, last_place: int) -> tuple[int, Acked | Polled] | None:
        """Return the highest high watermark that had been told when `poll` was asked for, and the event that told it.

        Args:
            last_place: the place of the consumer's event before `poll`, which counts if `poll` has no `asked_ms`.
        """
        if poll.asked_ms >= 0:
            count = bisect_left(self.times_ms, poll.asked_ms)
        else:
            count = bisect_left(self.places, last_place + 1)
        return self.highest[count - 1] if count else None


class ReportedWatermarks:
    """Finds contradictions between the high watermarks that were told of one partition, in one era of its log.

    Attributes:
        regressed: polls with a lower high watermark than the same broker had told before in the same leader epoch.
        stale: polls without a value that a leader of a later epoch had acknowledged before.
    """

    def __init__(self) -> None:
        self.regressed: list[tuple[Polled, int, Acked | Polled]] = []
        self.stale: list[tuple[Polled, int, Acked | Polled]] = []
        self._polled: dict[tuple[int, int, bool], _Proofs] = {}
        self._acked: dict[int, _Proofs] = {}

    def begin_era(self) -> None:
        """Forget what was told before an unclean election."""
        self._polled.clear()
        self._acked.clear()

    def take_ack(self, place: int, ack: Acked) -> None:
        """Add an acknowledgement by all in-sync replicas, at its place in the history."""
        if ack.offset >= 0:
            self._acked.setdefault(ack.leader_epoch, _Proofs()).add(place, ack.offset + 1, ack)

    def take_poll(self, place: int, last_place: int, poll: Polled) -> None:
        """Compare a poll with all that was told before, and add it; `last_place` as in `_Proofs.before`."""
        if poll.high_watermark < 0:
            return
        proofs = self._polled.setdefault((poll.broker, poll.leader_epoch, poll.follower), _Proofs())
        same = [proofs] if poll.follower else [proofs, *self._acked_in(poll.leader_epoch)]
        later = [] if poll.follower or poll.leader_epoch < 0 else self._acked_after(poll.leader_epoch)
        for found, candidates in ((self.regressed, same), (self.stale, later)):
            told = [proof for each in candidates if (proof := each.before(poll, last_place)) is not None]
            highest = max(told, key=lambda proof: proof[0], default=None)
            if highest is not None and highest[0] > poll.high_watermark:
                found.append((poll, *highest))
        proofs.add(place, poll.high_watermark, poll)

    def _acked_in(self, leader_epoch: int) -> Iterator[_Proofs]:
        if leader_epoch in self._acked:
            yield self._acked[leader_epoch]

    def _acked_after(self, leader_epoch: int) -> list[_Proofs]:
        return [proofs for epoch, proofs in self._acked.items() if epoch > leader_epoch]


def described(found: tuple[Polled, int, Acked | Polled]) -> str:
    """Return a contradiction as text."""
    poll, high_watermark, proof = found
    where = f"broker {poll.broker} in leader epoch {poll.leader_epoch}" if poll.broker >= 0 else "a broker"
    if isinstance(proof, Acked):
        told = f"{proof.value} of {proof.producer} was acknowledged at offset {proof.offset} at {proof.time_ms} ms"
    else:
        told = f"{proof.consumer} was told high watermark {high_watermark} at {proof.time_ms} ms"
    return f"{poll.consumer} was told high watermark {poll.high_watermark} by {where} at {poll.time_ms} ms; {told}"
