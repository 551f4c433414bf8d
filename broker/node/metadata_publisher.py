"""Applies a new metadata image to one broker (Kafka: BrokerMetadataPublisher)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from purgatorio.broker.config.dynamic import DynamicBrokerConfig
from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.following.fetcher_manager import ReplicaFetcherManager
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.time.long_work import OwnWork, Steps

COST_OF_ROLES: Final = 1_000
"""The cost of `ReplicaManager.apply_more` (see `LongWork`)."""
TURNS_BETWEEN_ROLES: Final = 4
"""Turns of the event loop from one call of it to the next. Brokers that share a loop apply an image at the same time; a
produce request with acks=all needs about five turns, and should not meet a step in each."""


class ImageListener(Protocol):
    """A part of a broker that acts on new images."""

    def image_changed(self, image: ClusterImage) -> None:
        """Act on a new image; some may have been skipped."""
        ...


class BrokerMetadataPublisher:
    """Passes each new image to the parts of one broker, in the one correct order.

    Args:
        fetchers: follow leaders.
        others: hear of the image when replicas have theirs, in this order.
        reconfigured: makes configs that changed take effect.
        work: gives replicas their roles, when an image has changed many partitions.
    """

    def __init__(
        self,
        dynamic: DynamicBrokerConfig,
        *,
        replicas: ReplicaManager,
        lifecycle: BrokerLifecycleManager,
        fetchers: ReplicaFetcherManager,
        others: Sequence[ImageListener],
        reconfigured: Callable[[Mapping[str, Any]], None],
        work: OwnWork,
    ) -> None:
        self._dynamic = dynamic
        self._replicas = replicas
        self._lifecycle = lifecycle
        self._fetchers = fetchers
        self._others = others
        self._reconfigured = reconfigured
        self._go_on = work.whenever_woken(self._give_roles)
        self._follows_leaders = True

    def publish(self, image: ClusterImage) -> None:
        """Have the broker act on a new image."""
        reconfigured = self._dynamic.image_changed(image)
        if reconfigured:
            # Before the image's partition states: an ISR that was decided with a larger min.insync.replicas must never
            # meet a leader that has the smaller one.
            self._reconfigured(reconfigured)
        leader_rate, follower_rate = self._dynamic.replication_rates
        self._replicas.leader_throttle.limit, self._replicas.follower_throttle.limit = leader_rate, follower_rate
        self._replicas.apply(image)
        if reconfigured:
            self._replicas.advance_high_watermarks("broker configs")
        for each in self._others:
            each.image_changed(image)
        self._roles_changed()

    def follow_no_more(self) -> None:
        """Follow no further leaders: the broker stops."""
        self._follows_leaders = False

    def _give_roles(self) -> Steps:
        for _ in range(TURNS_BETWEEN_ROLES):
            yield 0
        self._replicas.apply_more()
        self._roles_changed()
        yield COST_OF_ROLES

    def _roles_changed(self) -> None:
        """Follow the leaders of the partitions that got a role; end a pause of leading when all have theirs."""
        if self._replicas.is_current:
            self._lifecycle.caught_up()
        else:
            self._go_on()
        if self._follows_leaders:
            self._fetchers.follow_leaders()
