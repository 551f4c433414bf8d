"""One log that does everything right: the histories that its clients write have no anomaly."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Assigned,
    Drained,
    Failed,
    Polled,
    Sent,
    UncleanElection,
    Unknown,
)

P = "orders-0"


@dataclass
class ToyProducer:
    """Idempotent: what has no answer is sent again, in order, and written once."""

    name: str
    sequence: int = 0
    unwritten: list[int] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)


@dataclass
class ToyConsumer:
    name: str
    position: int = 0
    in_flight: Polled | None = None


class ToyLog:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.log: list[int] = []
        self.events: list[Event] = []
        self.values = 0
        self.producers = [ToyProducer("p"), ToyProducer("q")]
        self.consumers = [ToyConsumer("c"), ToyConsumer("d")]
        self.stray: list[int] = []

    @property
    def now_ms(self) -> int:
        return len(self.events)

    def run(self, steps: int, *, elections: bool = False) -> list[Event]:
        for consumer in self.consumers:
            self.events.append(Assigned(self.now_ms, consumer.name, P, 0))
        often = [self.send, self.write, self.answer, self.poll, self.poll]
        moves = [*(3 * often), self.acks_1, self.acks_1, self.late, self.begin]
        for _ in range(steps):
            if elections and self.rng.random() < 0.03:
                self.elect()
            else:
                self.rng.choice(moves)()
        for _ in range(3 * steps):
            self.write()
            self.answer()
        self.drain()
        return self.events

    def _sent(self, producer: str, sequence: int) -> int:
        self.values += 1
        self.events.append(Sent(self.now_ms, producer, P, self.values, sequence))
        return self.values

    def send(self) -> None:
        producer = self.rng.choice(self.producers)
        value = self._sent(producer.name, producer.sequence)
        producer.sequence += 1
        fate = self.rng.random()
        if fate < 0.1:
            self.events.append(Failed(self.now_ms, producer.name, P, value, "refused"))
        elif fate < 0.2:
            self.stray.append(value)
            self.events.append(Unknown(self.now_ms, producer.name, P, value, "given up"))
        else:
            producer.unwritten.append(value)

    def write(self) -> None:
        producer = self.rng.choice(self.producers)
        if producer.unwritten:
            value = producer.unwritten.pop(0)
            producer.unanswered.append(value)
            if value not in self.log:
                self.log.append(value)

    def answer(self) -> None:
        producer = self.rng.choice(self.producers)
        if not producer.unanswered:
            return
        value = producer.unanswered.pop(0)
        if self.rng.random() < 0.1:
            self.events.append(Unknown(self.now_ms, producer.name, P, value, "lost"))
        else:
            told = value in self.log and self.rng.random() < 0.8
            offset = self.log.index(value) if told else -1
            self.events.append(Acked(self.now_ms, producer.name, P, value, offset, -1))

    def acks_1(self) -> None:
        """A leader acknowledges alone, and may then be lost; somebody else's value takes the offset."""
        value = self._sent("leader-only", self.values)
        self.events.append(Acked(self.now_ms, "leader-only", P, value, len(self.log), 1))
        if self.rng.random() < 0.5:
            self.log.append(value)

    def late(self) -> None:
        """A request that its producer has given up arrives."""
        if self.stray:
            self.log.append(self.stray.pop(self.rng.randrange(len(self.stray))))

    def poll(self) -> None:
        """A consumer fetches, and later receives the answer."""
        consumer = self.rng.choice(self.consumers)
        if consumer.in_flight is not None:
            self.events.append(consumer.in_flight)
            consumer.in_flight = None
            return
        if consumer.position > len(self.log):
            # Out of range, after an unclean election: real clients reset without telling.
            consumer.position = self.rng.choice([0, len(self.log)])
        consumer.in_flight = self._fetch(consumer, final=False)

    def _fetch(self, consumer: ToyConsumer, *, final: bool) -> Polled | None:
        start = consumer.position
        taken = self.log[start : start + self.rng.randint(1, 4)]
        if not taken:
            return None
        consumer.position += len(taken)
        records = tuple((start + nth, value) for nth, value in enumerate(taken))
        return Polled(self.now_ms, consumer.name, P, records, self.rng.choice([len(self.log), -1]), final)

    def begin(self) -> None:
        """A consumer begins anew, anywhere."""
        consumer = self.rng.choice(self.consumers)
        consumer.position, consumer.in_flight = self.rng.randint(0, len(self.log)), None
        self.events.append(Assigned(self.now_ms, consumer.name, P, consumer.position))

    def elect(self) -> None:
        """All but the beginning of the log is given up; producers send again what they have no answer to."""
        self.events.append(UncleanElection(self.now_ms, P))
        del self.log[self.rng.randint(0, len(self.log)) :]
        for producer in self.producers:
            again = [value for value in producer.unanswered if self.rng.random() < 0.5]
            producer.unanswered = [value for value in producer.unanswered if value not in again]
            producer.unwritten = again + producer.unwritten

    def drain(self) -> None:
        final = ToyConsumer("final")
        self.events.append(Assigned(self.now_ms, final.name, P, 0))
        while (poll := self._fetch(final, final=True)) is not None:
            self.events.append(poll)
        self.events.append(Drained(self.now_ms, P, 0, len(self.log)))
