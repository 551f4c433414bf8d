"""Replication throttles: how fast a broker may serve, or fetch, the replicas that a topic lists (KIP-73).

A rate without a list of replicas does nothing, nor does a list without a rate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from purgatorio.broker.time.byte_quota import ByteQuota
from purgatorio.broker.time.rates import RateWindow
from purgatorio.purgatory.clock import Clock

EVERY_REPLICA: Final = "*"


class ReplicationThrottle(ByteQuota):
    """One broker's throttle as a leader, or as a follower.

    Args:
        broker_id: of this broker, whose entries of a list count.
    """

    def __init__(self, broker_id: int, clock: Clock, window: RateWindow | None = None) -> None:
        super().__init__(clock, window)
        self._broker_id = broker_id

    def is_about(self, replicas: tuple[str, ...], partition: int) -> bool:
        """Return whether a list of replicas, as a topic config has it, names this broker's of a partition."""
        return self.limit is not None and bool(replicas) and (self._broker_id, partition) in _Listed.of(replicas)


class _Listed:
    """The replicas that a list names."""

    __slots__ = ("_every", "_named")

    def __init__(self, replicas: tuple[str, ...]) -> None:
        self._every = replicas == (EVERY_REPLICA,)
        pairs = () if self._every else (each.split(":") for each in replicas)
        self._named = frozenset((int(broker), int(partition)) for partition, broker in pairs)

    def __contains__(self, replica: tuple[int, int]) -> bool:
        return self._every or replica in self._named

    @staticmethod
    @lru_cache(1_024)
    def of(replicas: tuple[str, ...]) -> _Listed:
        """Return a list, read once for all partitions of its topic."""
        return _Listed(replicas)
