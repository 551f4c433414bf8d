"""One fetcher for each broker that leads partitions that this broker follows (Kafka's ReplicaFetcherManager)."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

from purgatorio.broker.replica.following.follower import Connect, FetchSettings, FollowerFetcher, FollowerGate
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.purgatory.clock import Clock


class ReplicaFetcherManager:
    """The fetchers of one broker. A fetcher is made when its leader is first followed, and idles without partitions.

    Args:
        replicas: this broker's replicas.
        broker_epoch: this broker's epoch, sent with each fetch (KIP-903).
        connect: opens a connection to a broker.
        settings: limits and timeouts of fetches.
        gate: holds fetches back.
        clock: times pauses.
        rng: the jitter of retries.
        spawn: runs a fetch loop under a name, as long as the broker runs.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        broker_epoch: Callable[[], int],
        connect: Connect,
        settings: FetchSettings,
        gate: FollowerGate,
        clock: Clock,
        rng: random.Random,
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        self._replicas = replicas
        self._broker_epoch = broker_epoch
        self._connect = connect
        self._settings = settings
        self._gate = gate
        self._clock = clock
        self._rng = rng
        self._spawn = spawn
        self._fetchers: dict[int, FollowerFetcher] = {}
        self._leader_epochs: dict[int, int] = {}  # the broker epoch of each leader, as last registered
        replicas.followed_log_cut = self._log_cut

    def follow_leaders(self) -> None:
        """Tell each fetcher what this broker now follows from its leader, and whether that was registered anew."""
        for leader_id, changes in self._replicas.take_refollowed().items():
            self._fetcher(leader_id).follow(changes)
        image = self._replicas.image
        for leader_id, fetcher in self._fetchers.items():
            registered = None if image is None else image.brokers.get(leader_id)
            if registered is not None and self._leader_epochs.get(leader_id) != registered.broker_epoch:
                self._leader_epochs[leader_id] = registered.broker_epoch
                fetcher.reconnect()

    def _log_cut(self, partition: Partition) -> None:
        fetcher = self._fetchers.get(partition.leader)
        if fetcher is not None:
            fetcher.alter(partition)

    def seems_dead(self, broker_id: int, within_ms: int) -> bool:
        """Return whether a leader refuses connections, and began to less than `within_ms` ago."""
        fetcher = self._fetchers.get(broker_id)
        return fetcher is not None and fetcher.seems_dead(within_ms)

    def _fetcher(self, leader_id: int) -> FollowerFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = FollowerFetcher(
                leader_id,
                replicas=self._replicas,
                broker_epoch=self._broker_epoch,
                connect=self._connect,
                settings=self._settings,
                gate=self._gate,
                clock=self._clock,
                rng=self._rng,
            )
            self._spawn(fetcher.run(), f"follows {leader_id}")
        return fetcher
