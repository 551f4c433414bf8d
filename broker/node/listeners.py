"""The listeners of one broker: they answer the same APIs, and share the memory for requests."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.authentication import AuthenticationServices, sasl_settings
from purgatorio.broker.config.brokers_tls import tls_settings
from purgatorio.broker.config.listeners import (
    BROKERS,
    ListenerConfig,
    brokers_own,
    listener_configs,
)
from purgatorio.broker.layers.faults.toxic_rule import Toxics
from purgatorio.broker.layers.quotas.connection_rates import ConnectionRates
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.routing.request import Routes
from purgatorio.broker.security.broker_credentials import NAME, BrokerCredentials, BrokerMechanism
from purgatorio.broker.security.brokers_tls import known_broker
from purgatorio.broker.security.client_certificate import ClientCertificates
from purgatorio.broker.security.sasl import SaslSettings
from purgatorio.broker.security.tls import ReloadedContext
from purgatorio.broker.server.connection_slots import ConnectionSlots
from purgatorio.broker.server.limits import ConnectionLimits
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.shared_services import Identify, ListenerParts, Login

MAX_BROKER_CONNECTIONS: Final = 1_024
"""Connections at the listener for brokers alone; each broker has a few to each other one."""


class BrokerListeners:
    """Starts and stops the listeners of one broker together.

    Args:
        routes: the handlers of the APIs.
        parts: what the listeners share.
        credentials: the brokers' own.
        clients: the credentials by which clients authenticate.
        rates: how fast clients may connect.

    Attributes:
        by_name: the listeners, in the order of the setting.
        token_keys: the keys of tokens' issuers, which the broker keeps fresh.

    Raises:
        ValueError: the settings of a listener cannot be used.
        TlsError: its certificates cannot.
    """

    def __init__(
        self,
        config: BrokerConfig,
        routes: Routes,
        parts: ListenerParts,
        *,
        credentials: BrokerCredentials,
        clients: AuthenticationServices,
        rates: ConnectionRates,
    ) -> None:
        self._config = config
        self._configs = (*listener_configs(config), *brokers_own(config))
        self._own: Endpoint | None = None
        self._slots = ConnectionSlots(parts.limits)
        self.by_name: dict[str, Listener] = {
            each.name: Listener(
                each.name,
                routes,
                parts,
                ConnectionSlots(_of_brokers(parts.limits)) if each.name == BROKERS else self._slots,
                login=self._login(each, credentials, clients),
                rates=None if each.name == BROKERS else rates,
                goes_first=each.name == BROKERS,
            )
            for each in self._configs
        }
        self.token_keys = list(clients.keys.values())

    async def start(self, listening: Mapping[str, Sequence[socket.socket]]) -> tuple[Endpoint, ...]:
        """Start the listeners; returns their advertised endpoints.

        Args:
            listening: sockets that listen already, by the listener's name (see `Listener.start`).

        Raises:
            OSError: a port is in use, or the host is not an address of this machine.
        """
        endpoints = []
        for each in self._configs:
            listener = self.by_name[each.name]
            await listener.start(each.host, each.port, listening.get(each.name, ()))
            if each.advertised is not None:
                host, port = each.advertised
                endpoints.append(Endpoint(each.name, host, port or listener.address[1]))
                if each.name == BROKERS:
                    self._own = endpoints[-1]
        return tuple(endpoints)

    def _login(
        self, listener: ListenerConfig, credentials: BrokerCredentials, clients: AuthenticationServices
    ) -> Login:
        """Return how the clients of a listener, or the other brokers, show who they are."""
        sasl = self._sasl(listener, credentials, clients)
        if not listener.protocol.has_tls:
            return Login(sasl=sasl)
        settings = tls_settings(self._config, listener)
        identify: Identify | None = None
        if settings.client_auth != "none" and sasl is None:  # else SASL identifies the client
            of_brokers = listener.name == BROKERS
            identify = known_broker if of_brokers else ClientCertificates(settings.principal_mapping_rules)
        return Login(tls=ReloadedContext(settings), identify=identify, sasl=sasl)

    def _sasl(
        self, listener: ListenerConfig, credentials: BrokerCredentials, clients: AuthenticationServices
    ) -> SaslSettings | None:
        """Return how the clients of a listener authenticate, or the other brokers; None if they do not."""
        if not listener.protocol.has_sasl:
            return None
        if listener.name == BROKERS:
            mechanism = BrokerMechanism(credentials, self._config.broker_id, self._brokers_endpoint)
            return SaslSettings(mechanisms={NAME: mechanism})
        return sasl_settings(self._config, listener, clients)

    def _brokers_endpoint(self) -> Endpoint:
        assert self._own is not None, "a broker connects when this one listens"
        return self._own

    def allow_connections(self, most: int, most_per_ip: int) -> None:
        """Accept no client's connection beyond these numbers, in total and from one address."""
        self._slots.allow(most, most_per_ip)

    def pass_toxics(self, toxics: Toxics) -> None:
        """Have the bytes of all connections, present and new ones, pass these toxics, in place of those before."""
        for listener in self.by_name.values():
            listener.pass_toxics(toxics)

    def stop_accepting(self) -> None:
        """Accept no more connections."""
        for listener in self.by_name.values():
            listener.stop_accepting()

    async def drain(self, grace_ms: int) -> None:
        """Close all connections, each when its requests are answered, and after `grace_ms` at the latest."""
        for listener in self.by_name.values():
            await listener.drain(grace_ms)

    def abort(self) -> None:
        """Close all connections at once."""
        for listener in self.by_name.values():
            listener.abort()


def _of_brokers(limits: ConnectionLimits) -> ConnectionLimits:
    """Return the limits of the listener for brokers alone, which clients' connections do not count for."""
    most = MAX_BROKER_CONNECTIONS
    return replace(limits, max_connections=most, max_connections_per_ip=most, max_connections_of={})
