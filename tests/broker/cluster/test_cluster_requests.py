"""A cluster reads requests within the bounds of its configuration."""

from __future__ import annotations

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.server.peer import open_peer
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest

PATIENCE_MS = 10_000


@pytest.mark.parametrize("queued", ["-1", "1048576"])
async def test_clients_are_answered_with_any_bound_of_queued_requests(queued: str) -> None:
    """With -1, Kafka's default, the broker once read nothing after a connection's first request."""
    given = {"port": "0", "queued.max.request.bytes": queued, "brokers": "1"}
    async with Cluster(load_cluster_config(settings=given), admin=False) as cluster:
        endpoint = cluster.broker(1).endpoints[0]
        peer = await open_peer(SystemClock(), "test", PATIENCE_MS, (endpoint.host, endpoint.port))
        for _ in range(3):
            response = await peer.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=PATIENCE_MS)
            assert response.error_code == 0
        peer.close()
        await peer.wait_closed()
