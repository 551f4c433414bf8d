"""A cluster's settings with throw-away certificates: clients speak TLS, and have a file to trust."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from purgatorio.broker.config.broker_settings import WILDCARD_HOSTS
from purgatorio.broker.config.cluster_settings import ClusterConfig
from purgatorio.broker.config.listeners import ListenerAddress, listener_configs, parse_addresses
from purgatorio.broker.security.security_protocol import SecurityProtocol
from purgatorio.broker.security.throw_away import CertificateFiles, throw_away_certificates

_WITH_TLS: Final[dict[str, SecurityProtocol]] = {
    SecurityProtocol.PLAINTEXT: SecurityProtocol.SSL,
    SecurityProtocol.SASL_PLAINTEXT: SecurityProtocol.SASL_SSL,
}


def with_throw_away_tls(config: ClusterConfig, folder: Path) -> tuple[ClusterConfig, CertificateFiles]:
    """Return the settings with certificates in `folder`, which are made if they are not there.

    Without the setting `listeners` the one listener becomes SSL; if none of those that are set speaks TLS, all do.
    Clients may show a certificate.

    Raises:
        CertificatesUnavailable: see `throw_away_certificates`.
    """
    listeners = listener_configs(config.broker_configs()[0])
    hosts = {each.host for each in listeners} | {each.advertised[0] for each in listeners if each.advertised}
    files = throw_away_certificates(folder, sorted(hosts - WILDCARD_HOSTS))
    update = {
        "ssl_keystore_location": str(files.broker),
        "ssl_truststore_location": str(files.authority),
        "ssl_client_auth": "requested",
    }
    if not any(each.protocol.has_tls for each in listeners):
        update |= _all_with_tls(config)
    return config.model_copy(update={"broker": config.broker.model_copy(update=update)}), files


def _all_with_tls(config: ClusterConfig) -> dict[str, str]:
    """Return settings by which all listeners speak TLS. One that is named after its protocol changes its name, too."""
    broker = config.broker
    if broker.listeners is None:
        return {"listeners": str(ListenerAddress(SecurityProtocol.SSL, config.host, config.port))}
    update = {
        name: ",".join(
            str(each._replace(name=_WITH_TLS.get(each.name, each.name))) for each in parse_addresses(name, text)
        )
        for name, text in (("listeners", broker.listeners), ("advertised_listeners", broker.advertised_listeners))
        if text is not None
    }
    named = [each for each in listener_configs(broker) if each.name not in _WITH_TLS]
    if named:
        update["listener_security_protocol_map"] = ",".join(f"{each.name}:{_WITH_TLS[each.protocol]}" for each in named)
    return update
