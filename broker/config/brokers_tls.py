"""TLS between the brokers of a cluster on several hosts, from a broker's settings.

It is that of the listener `BROKERS`, whose settings begin with ``listener.name.brokers.``; the settings for all
listeners count where it has none of its own, as everywhere.
"""

from __future__ import annotations

from typing import Any

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.listeners import BROKERS, ListenerConfig, brokers_own, listener_configs
from purgatorio.broker.security.tls import TlsSettings


def tls_settings(config: BrokerConfig, listener: ListenerConfig) -> TlsSettings:
    """Return the TLS settings of a listener; brokers always ask each other for certificates."""
    given: dict[str, Any] = {**config.model_dump(), **listener.settings}
    return TlsSettings(
        keystore_location=given["ssl_keystore_location"],
        key_password=given["ssl_key_password"],
        truststore_location=given["ssl_truststore_location"],
        client_auth="required" if listener.name == BROKERS else given["ssl_client_auth"],
        versions=tuple(given["ssl_enabled_protocols"].split(",")),
        principal_mapping_rules=given["ssl_principal_mapping_rules"],
        verifies_host=given["ssl_endpoint_identification_algorithm"] == "https",
    )


def brokers_tls(config: BrokerConfig) -> TlsSettings | None:
    """Return how the brokers speak TLS with each other; None if they do not."""
    return next((tls_settings(config, each) for each in brokers_own(config) if each.protocol.has_tls), None)


def check_brokers_tls(config: BrokerConfig, *, has_secret: bool, needs_token: bool) -> None:
    """Refuse settings with which brokers on several hosts could not recognize each other, or an intruder could join.

    Args:
        has_secret: there is a file with the cluster's secret.
        needs_token: the admin HTTP, which other hosts can reach, asks for a token, and none is set.

    Raises:
        ValueError: the text says what to set.
    """
    protocol = config.security_inter_broker_protocol
    tls = brokers_tls(config)
    if tls is None:
        return
    for name, found in (("keystore", tls.keystore_location), ("truststore", tls.truststore_location)):
        if found is None:
            raise ValueError(
                f"security.inter.broker.protocol is {protocol}, but there is no {name}: set "
                f"listener.name.brokers.ssl.{name}.location to a PEM file"
            )
    if protocol == "SASL_SSL":
        return
    if needs_token:
        raise ValueError(
            "admin.token is not set, and there is no secret that all brokers could make it of: set admin.token to the "
            "same at each of them, or admin.auth=none"
        )
    if has_secret:
        raise ValueError(
            "security.inter.broker.protocol is SSL, by which brokers know each other by certificates alone: "
            "leave cluster.secret.file out, or set SASL_SSL for both"
        )
    for each in listener_configs(config):
        theirs = tls_settings(config, each)
        if (
            each.protocol.has_tls
            and theirs.client_auth != "none"
            and theirs.truststore_location == tls.truststore_location
        ):
            raise ValueError(
                f"clients of the listener {each.name} have certificates that brokers would take for a broker's: set "
                "listener.name.brokers.ssl.truststore.location to an authority that signs brokers alone, or "
                "security.inter.broker.protocol=SASL_SSL with a cluster.secret.file"
            )
