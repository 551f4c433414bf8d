"""A broker's listeners, from its settings: names, security protocols, addresses (KIP-2, KIP-103, KIP-291).

A setting of one listener is named after it: `listener.name.external.ssl.client.auth` wins over `ssl.client.auth` at the
listener EXTERNAL.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from purgatorio.broker.config.address_settings import WILDCARD_HOSTS
from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.late import dataclass

PLAINTEXT: Final = "PLAINTEXT"
BROKERS: Final = "BROKERS"
"""The listener that brokers of one process open for each other, on loopback, as soon as clients need credentials."""
_ENTRY: Final = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]/]*)):(?P<port>\d+)")
_LOOPBACK: Final = "127.0.0.1"
_ON_LOOPBACK: Final = "SASL_PLAINTEXT"
_MAX_PORT: Final = 65_535
_MAPS_KEPT: Final = 64
"""Protocol maps that are kept parsed; each broker's start asks for its own several times."""


class SecurityProtocol(enum.StrEnum):
    """How a listener speaks: with or without TLS, with or without SASL; the four protocols, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL before anything else."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ListenerAddress(NamedTuple):
    """One entry of `listeners` or `advertised.listeners`; an empty host stands for that of the setting `host`."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return the entry as Kafka writes it."""
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """One listener of a broker.

    Attributes:
        port: 0 takes any free one.
        advertised: the host and port that clients connect to, port 0 for the one that is taken; None if they are not
            advertised.
        settings: the settings in effect at this listener, by field name, as far as it has its own.
    """

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised: tuple[str, int] | None
    settings: Mapping[str, Any]


def listener_configs(config: BrokerConfig) -> tuple[ListenerConfig, ...]:
    """Return the listeners of a broker for clients, in the order of the setting; the first is its address.

    Raises:
        ValueError: the settings cannot be used; the text says which, and what to write.
    """
    protocols = _protocols(config.listener_security_protocol_map)
    advertised = _advertised(config)
    found = tuple(
        ListenerConfig(
            name=entry.name,
            protocol=_protocol(entry.name, protocols),
            host=entry.host or config.host,
            port=entry.port,
            advertised=advertised.get(entry.name),
            settings=_own_settings(config, entry.name),
        )
        for entry in own_listeners(config)
    )
    _check_names(config, [each.name for each in found])
    return found


def has_security(config: BrokerConfig) -> bool:
    """Return whether clients of any listener must show who they are, hide what they say, or need permissions."""
    protocols = _protocols(config.listener_security_protocol_map)
    return bool(config.authorizer_class_name) or any(
        _protocol(each.name, protocols) is not SecurityProtocol.PLAINTEXT for each in own_listeners(config)
    )


def brokers_own(config: BrokerConfig) -> tuple[ListenerConfig, ...]:
    """Return the listener that is for the other brokers alone: a broker shows there that it has the cluster's secret.

    Brokers of one machine listen on loopback, and not at all while clients need no credentials either.
    """
    if not has_own_listener(config):
        return ()
    on_hosts = config.cluster_port is not None
    host, port = (config.host, config.cluster_port or 0) if on_hosts else (_LOOPBACK, 0)
    return (
        ListenerConfig(
            name=BROKERS,
            protocol=SecurityProtocol(config.security_inter_broker_protocol if on_hosts else _ON_LOOPBACK),
            host=host,
            port=port,
            advertised=((config.advertised_host or host) if on_hosts else host, port),
            settings=_own_settings(config, BROKERS),
        ),
    )


def has_own_listener(config: BrokerConfig) -> bool:
    """Return whether the brokers connect to each other at a listener of their own."""
    return config.cluster_port is not None or has_security(config)


def inter_broker_listener(config: BrokerConfig) -> str:
    """Return the name of the listener by which brokers connect to each other (Kafka: inter.broker.listener.name)."""
    if has_own_listener(config):
        return BROKERS
    return (config.inter_broker_listener_name or own_listeners(config)[0].name).upper()


def own_listeners(config: BrokerConfig) -> tuple[ListenerAddress, ...]:
    """Return the entries of `listeners`; without that setting the one entry that `host` and `port` stand for."""
    if config.listeners is None:
        return (ListenerAddress(PLAINTEXT, config.host, config.port),)
    return parse_addresses("listeners", config.listeners)


def with_ports(config: BrokerConfig, ports: Mapping[str, int]) -> BrokerConfig:
    """Return the settings with these ports of the listeners for clients, given by name."""
    if config.listeners is None:
        return config.model_copy(update={"port": ports[PLAINTEXT]})
    entries = [each._replace(port=ports[each.name]) for each in own_listeners(config)]
    return config.model_copy(update={"listeners": ",".join(map(str, entries))})


def counted_up(config: BrokerConfig, index: int) -> BrokerConfig:
    """Return the settings of the broker number `index` (from 0): each port goes up by it, and 0 stays 0."""
    update = {
        name: ",".join(str(each._replace(port=each.port and each.port + index)) for each in parse_addresses(name, text))
        for name, text in (("listeners", config.listeners), ("advertised_listeners", config.advertised_listeners))
        if text is not None
    }
    return config.model_copy(update=update) if update else config


def parse_addresses(setting: str, text: str) -> tuple[ListenerAddress, ...]:
    """Return the entries of a setting such as `INTERNAL://broker:29092,EXTERNAL://localhost:9092`.

    Raises:
        ValueError: an entry is not of this form, or a name or an address is there twice.
    """
    dotted = setting.replace("_", ".")
    entries = []
    for part in text.split(","):
        match = _ENTRY.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{dotted} has the entry {part.strip()!r}, which is not like PLAINTEXT://127.0.0.1:9092")
        port = int(match["port"])
        if port > _MAX_PORT:
            raise ValueError(f"{dotted} has the port {port}, but ports end at {_MAX_PORT}")
        entries.append(ListenerAddress(match["name"].upper(), match["v6"] or match["host"], port))
    _refuse_twice(dotted, [each.name for each in entries])
    _refuse_twice(dotted, [f"{each.host}:{each.port}" for each in entries if each.port])
    return tuple(entries)


def _refuse_twice(setting: str, values: Sequence[str]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"{setting} has {value} twice")


@lru_cache(maxsize=_MAPS_KEPT)
def _protocols(text: str | None) -> Mapping[str, SecurityProtocol]:
    """Return the security protocol of each listener name; the four protocols are names of their own."""
    found = {each.value: each for each in SecurityProtocol}
    for part in (text or "").split(","):
        if part.strip():
            name, _, protocol = part.strip().upper().partition(":")
            if protocol not in SecurityProtocol.__members__:
                known = ", ".join(SecurityProtocol)
                raise ValueError(f"listener.security.protocol.map has {part.strip()!r}; the protocols are {known}")
            found[name] = SecurityProtocol[protocol]
    return MappingProxyType(found)


def _protocol(name: str, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    """Return the protocol of a listener; raises ValueError if it has none."""
    protocol = protocols.get(name)
    if protocol is None:
        wanted = f"{name}:PLAINTEXT"
        raise ValueError(f"listener {name} has no protocol: add {wanted} to listener.security.protocol.map")
    return protocol


def _advertised(config: BrokerConfig) -> dict[str, tuple[str, int]]:
    own = own_listeners(config)
    if config.advertised_listeners is None:
        hosts = {each.name: config.advertised_host or _reachable(each.host or config.host) for each in own}
        ports = {each.name: config.advertised_port if config.listeners is None else None for each in own}
        return {each.name: (hosts[each.name], ports[each.name] or each.port) for each in own}
    entries = parse_addresses("advertised_listeners", config.advertised_listeners)
    for entry in entries:
        if entry.name not in {each.name for each in own}:
            raise ValueError(f"advertised.listeners has {entry.name}, which listeners does not have")
        if entry.host in WILDCARD_HOSTS or not entry.host:
            raise ValueError(f"advertised.listeners has {entry}: no client can connect to this host")
    return {entry.name: (entry.host, entry.port) for entry in entries}


def _reachable(host: str) -> str:
    return "localhost" if host in WILDCARD_HOSTS else host


def _check_names(config: BrokerConfig, names: Sequence[str]) -> None:
    """Refuse settings that name a listener which is not there."""
    if BROKERS in names:
        raise ValueError(f"{BROKERS} is the listener of the brokers themselves; choose another name")
    wanted = config.inter_broker_listener_name
    if wanted is not None and wanted.upper() not in names:
        raise ValueError(f"inter.broker.listener.name is {wanted}, which listeners does not have")
    known = [*names, BROKERS] if config.cluster_port is not None else names
    for key in config.listener_name:
        if not any(key.startswith(f"{name.lower()}_") for name in known):
            raise ValueError(f"listener.name.{key.replace('_', '.')} is of no listener; there are {', '.join(names)}")


def _own_settings(config: BrokerConfig, name: str) -> dict[str, Any]:
    """Return the settings that are this listener's own, by the field name of the setting for all listeners."""
    prefix = f"{name.lower()}_"
    return {key.removeprefix(prefix): value for key, value in config.listener_name.items() if key.startswith(prefix)}
