"""What a simulation's transactional clients are like, and what they share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.time.clock import Clock
from purgatorio.simulation.clients.clients import Client, Output
from purgatorio.simulation.clients.consumers import Reader
from purgatorio.simulation.clients.transaction_requests import Versions
from purgatorio.simulation.clients.transactional import SentCounts, TransactionalProducer
from purgatorio.simulation.history.history import History


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """The transactional clients of a simulation.

    Attributes:
        versions: the protocol that all of them follow.
        writers: the number of those that write to the topics; each has a transactional id.
        timeout_ms: transaction.timeout.ms.
        zombies: whether another instance takes a transactional id over at times, and the one before goes on later.
        state_segment_bytes: the segment size of ``__transaction_state``, small for its log to be compacted while it is
            in use; 0: the brokers create that topic, with segments that are never full here.
    """

    versions: Versions
    writers: int = 2
    timeout_ms: int = 2_000
    zombies: bool = False
    state_segment_bytes: int = 0

    def __str__(self) -> str:
        """Describe the clients."""
        zombies = ", with zombies" if self.zombies else ""
        segments = f", state in segments of {self.state_segment_bytes} bytes" if self.state_segment_bytes else ""
        protocol = f"{self.writers} transactional writers by Produce {self.versions.produce}"
        return f"{protocol}, {self.timeout_ms} ms to time out{zombies}{segments}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSurroundings:
    """What transactional clients share.

    Attributes:
        outputs: the partitions that they write to.
        values: the values to send.
        reader: how they read.
        new_client: makes a client of a name.
        is_restless: whether they may be slow, or have zombies: not once the faults are over.
        pause_ms: the range of the wait between two transactions.
        numbers: gives each transaction its number.
    """

    plan: TransactionPlan
    outputs: tuple[Output, ...]
    values: Iterator[int]
    reader: Reader
    history: History
    clock: Clock
    new_client: Callable[[str], Client]
    is_restless: Callable[[], bool]
    pause_ms: tuple[float, float]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new_producer(self, name: str, transactional_id: str, sent: SentCounts | None = None) -> TransactionalProducer:
        """Return an instance of a producer; its client has this name, as may the one before, which has counted."""
        return TransactionalProducer(
            self.new_client(name),
            transactional_id,
            versions=self.plan.versions,
            numbers=self.numbers,
            history=self.history,
            clock=self.clock,
            timeout_ms=self.plan.timeout_ms,
            sent=sent,
        )

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that they write to."""
        return tuple(TopicPartition(output.topic, output.partition) for output in self.outputs)
