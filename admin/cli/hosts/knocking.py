"""Before a broker joins a cluster on several hosts: do its brokers and this one accept each other's certificates?"""

from __future__ import annotations

import ssl
from typing import Final

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.brokers_tls import brokers_tls
from purgatorio.broker.config.listeners import BROKERS
from purgatorio.broker.metadata.image import ClusterImage, Endpoint
from purgatorio.broker.security.brokers_tls import TlsRefused, check_own
from purgatorio.broker.security.tls import client_context
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.purgatory.clock import Clock

LIMIT_MS: Final = 2_000
"""How long a broker may take; silence says nothing about certificates."""


class NotAccepted(Exception):
    """No living broker of the cluster speaks with this one; the message says why, and what to set."""


async def knock(config: BrokerConfig, image: ClusterImage, clock: Clock) -> None:
    """Speak with the living brokers until one answers; brokers that cannot be reached at all are no reason not to join.

    Raises:
        TlsError: this broker's certificate would be refused by every other one.
        NotAccepted: brokers refuse this one, or it refuses them, and none accepts it.
    """
    tls = brokers_tls(config)
    if tls is None:
        return
    check_own(tls, config.advertised_host or config.host)
    refusals = []
    for broker_id, registration in sorted(image.live_brokers.items()):
        endpoint = registration.endpoint(BROKERS)
        if broker_id == config.broker_id or endpoint is None:
            continue
        try:
            await _speak(endpoint, client_context(tls), clock)
            return
        except TlsRefused as error:
            refusals.append(f"broker {broker_id} at {error}")
        except (OSError, TimeoutError):
            continue
    if refusals:
        raise NotAccepted(f"broker {config.broker_id} cannot join the cluster: {refusals[0]}")


async def _speak(endpoint: Endpoint, tls: ssl.SSLContext, clock: Clock) -> None:
    """Send a broker a request: with TLS 1.3 only its answer shows that it has accepted a certificate."""
    peer = PeerConnection(clock, client_id="knock")
    try:
        await peer.connect(endpoint.host, endpoint.port, timeout_ms=LIMIT_MS, tls=tls)
        await peer.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=LIMIT_MS)
    finally:
        peer.close()
        await peer.wait_closed()
