"""One fetcher for each broker that leads partitions that this broker follows (Kafka's ReplicaFetcherManager)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from purgatorio.broker.replica.following.follower import FollowerFetcher, FollowerServices
from purgatorio.broker.replica.partition import Partition


class ReplicaFetcherManager:
    """The fetchers of one broker. A fetcher is made when its leader is first followed, and idles without partitions.

    Args:
        services: what all fetchers need.
        spawn: runs a fetch loop under a name, as long as the broker runs.
    """

    def __init__(self, services: FollowerServices, spawn: Callable[[Coroutine[Any, Any, None], str], None]) -> None:
        self._services = services
        self._replicas = services.replicas
        self._spawn = spawn
        self._fetchers: dict[int, FollowerFetcher] = {}
        self._leader_epochs: dict[int, int] = {}  # the broker epoch of each leader, as last registered
        services.replicas.followed_log_cut = self._log_cut

    def follow_leaders(self) -> None:
        """Give each fetcher the partitions that this broker now follows from its leader, and whether that was
        registered anew."""
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
            fetcher = self._fetchers[leader_id] = FollowerFetcher(leader_id, self._services)
            self._spawn(fetcher.run(), f"follows {leader_id}")
        return fetcher
