"""The limits of connections and of follower fetches, from a broker's settings."""

from __future__ import annotations

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.replica.following.follower import FetchSettings
from purgatorio.broker.server.limits import ConnectionLimits


def fetch_settings(config: BrokerConfig) -> FetchSettings:
    """Return the limits and timeouts of follower fetches from the broker's configs."""
    return FetchSettings(
        wait_max_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        partition_max_bytes=config.replica_fetch_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
        response_timeout_ms=config.replica_socket_timeout_ms,
    )


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """Return the limits of connections from the broker's configs."""
    return ConnectionLimits(
        max_request_bytes=config.socket_request_max_bytes,
        max_in_flight_requests=config.max_in_flight_requests_per_connection,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_of=_overrides(config.max_connections_per_ip_overrides),
        request_memory_bytes=config.queued_max_request_bytes,
        idle_ms=config.connections_max_idle_ms,
    )


def _overrides(text: str) -> dict[str, int]:
    """Return the connections of each address: from ``127.0.0.1:200,::1:5``."""
    pairs = (each.rpartition(":") for each in text.split(",") if each)
    return {host: int(count) for host, _, count in pairs}
