"""Connections from one broker to the others of its cluster, by the listener that is for them."""

from __future__ import annotations

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.brokers_tls import brokers_tls
from purgatorio.broker.config.listeners import brokers_own, inter_broker_listener
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.security.broker_credentials import NAME, BrokerCredentials
from purgatorio.broker.security.tls import ReloadedContext, client_context
from purgatorio.broker.server.broker_login import log_in
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.server.peers import PeerNetwork
from purgatorio.protocol.framing import Gather
from purgatorio.purgatory.clock import Clock


class BrokerConnections:
    """Opens connections to other brokers.

    Args:
        config: of this broker; all brokers of a cluster have the same listeners.
        credentials: of the cluster's brokers.
        store: has the image that this broker acts on.
        clock: times connecting and answers.
        peer_network: gets each connection, so that a test can hold it.
        gather: gives the memory for large answers.

    Raises:
        TlsError: the files for TLS between brokers cannot be used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        credentials: BrokerCredentials,
        *,
        store: MetadataStore,
        clock: Clock,
        peer_network: PeerNetwork,
        gather: Gather,
    ) -> None:
        self._broker_id = config.broker_id
        self._listener = inter_broker_listener(config)
        has_login = any(each.protocol.has_sasl for each in brokers_own(config))
        self._credentials = credentials if has_login else None
        tls = brokers_tls(config)
        self._tls = None if tls is None else ReloadedContext(tls, client_context)
        self._store = store
        self._clock = clock
        self._peer_network = peer_network
        self._gather = gather

    async def connect(self, broker_id: int, *, client: str) -> PeerConnection:
        """Open a connection to another broker, for one part of this broker.

        Raises:
            OSError: the broker is not registered, or refuses the connection; or what answers is not this broker.
            TimeoutError: the connection was not accepted in time.
        """
        registration = self._store.image.brokers.get(broker_id)
        endpoint = None if registration is None else registration.endpoint(self._listener)
        if endpoint is None:
            raise ConnectionError(f"broker {broker_id} is not registered with a listener {self._listener}")
        peer = PeerConnection(self._clock, client_id=f"broker-{self._broker_id}-{client}", gather=self._gather)
        await peer.connect(endpoint.host, endpoint.port, tls=None if self._tls is None else self._tls())
        self._peer_network.connected(broker_id, peer)
        if self._credentials is not None:
            await log_in(peer, NAME, self._credentials.login(self._broker_id, broker_id, endpoint))
        return peer
