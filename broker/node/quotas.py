"""The client quotas of one broker, connected with its handlers, its purgatories and its fetch sessions."""

from __future__ import annotations

import math

from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.dynamic import DynamicBrokerConfig
from purgatorio.broker.config.listeners import has_security
from purgatorio.broker.layers.quotas.client_quotas import BrokerQuotas, QuotaWindows
from purgatorio.broker.log.setting import MAX_INT
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.replica.fetching.fetch_session import FetchSessionCache
from purgatorio.broker.routing.route_layers import RouteLayers
from purgatorio.broker.tier.traffic import TierTraffic
from purgatorio.broker.time.rates import RateWindow
from purgatorio.protocol.messages.fetch import FetchResponse
from purgatorio.purgatory.clock import Clock


def broker_quotas(
    layers: RouteLayers,
    purgatories: Purgatories,
    *,
    clock: Clock,
    dynamic: DynamicBrokerConfig,
    store: MetadataStore,
    sessions: FetchSessionCache,
) -> BrokerQuotas:
    """Return the client quotas of a broker."""

    def withheld(response: FetchResponse, was_full: bool) -> None:
        by_id = any(any(topic.topic_id) for topic in response.responses)
        keys = [
            (topic.topic_id if by_id else topic.topic, partition.partition_index)
            for topic in response.responses
            for partition in topic.partitions
        ]
        sessions.withheld(response.session_id, keys, was_full=was_full)

    quotas = BrokerQuotas(
        layers,
        purgatories,
        clock=clock,
        windows=quota_windows(dynamic.current),
        topics=ImagePartitions(store, dynamic),
        withheld=withheld,
        knows_brokers=has_security(dynamic.current),
    )
    limit_connections(quotas, dynamic.current)
    return quotas


def limit_connections(quotas: BrokerQuotas, config: BrokerConfig) -> None:
    """Apply the rate of connections from the broker's configs; the largest number stands for none."""
    most = config.max_connection_creation_rate
    quotas.connections.broker_limit = math.inf if most == MAX_INT else most


def tier_traffic(config: BrokerConfig, clock: Clock) -> TierTraffic:
    """Return the quotas of copies to the tier and of reads from it."""
    copy_ms = config.remote_log_manager_copy_quota_window_size_seconds * 1_000
    fetch_ms = config.remote_log_manager_fetch_quota_window_size_seconds * 1_000
    traffic = TierTraffic(
        clock,
        RateWindow(config.remote_log_manager_copy_quota_window_num, copy_ms),
        RateWindow(config.remote_log_manager_fetch_quota_window_num, fetch_ms),
    )
    limit_tier(traffic, config)
    return traffic


def limit_tier(traffic: TierTraffic, config: BrokerConfig) -> None:
    """Take the quotas of the tier as they are configured now."""
    traffic.limit(
        copy=config.remote_log_manager_copy_max_bytes_per_second,
        fetch=config.remote_log_manager_fetch_max_bytes_per_second,
    )


def quota_windows(config: BrokerConfig) -> QuotaWindows:
    """Return the times over which quotas are measured from the broker's configs."""
    return QuotaWindows(
        RateWindow(config.quota_window_num, config.quota_window_size_seconds * 1_000),
        RateWindow(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1_000),
    )


class ImagePartitions:
    """The topics of the cluster by a broker's image."""

    def __init__(self, store: MetadataStore, dynamic: DynamicBrokerConfig) -> None:
        self._store = store
        self._dynamic = dynamic

    def count(self, topic: str) -> int | None:
        """Return the number of a topic's partitions; None if there is no such topic."""
        found = self._store.image.topics.get(topic)
        return None if found is None else len(found.partitions)

    def name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id."""
        found = self._store.image.topic_by_id(topic_id)
        return None if found is None else found.name

    def default_count(self) -> int:
        """Return the number of partitions of a topic that is created without one."""
        return self._dynamic.current.num_partitions
