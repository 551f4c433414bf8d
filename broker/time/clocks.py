"""The clocks of one broker: one time, with or without what must not be held against brokers, clients and members."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from purgatorio.purgatory.clock import Clock


class Monotonic(Protocol):
    """A clock by which things are judged, and nothing waits."""

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        ...


class Clocks(NamedTuple):
    """The clocks of one broker.

    Attributes:
        broker: the time of requests, records and waits; a test can move it.
        lease: times the broker's lease, the lag of its followers, and its requests to other brokers. Brokers that share
            a process, and a store in it, share a `RunningClock`.
        transactions: without the standstills of this process: open transactions and acquisition locks are judged by it,
            since a process that stands still hears no client.
        members: the same for the sessions of groups' members, without the times that a test skipped.
        slowest_rate: how slow `lease` may be: see `BrokerLifecycleManager`.
    """

    broker: Clock
    lease: Clock
    transactions: Clock
    members: Monotonic
    slowest_rate: float = 1.0

    @classmethod
    def alike(cls, clock: Clock) -> Clocks:
        """Return one clock for all: nothing is left out."""
        return cls(clock, clock, clock, clock)
