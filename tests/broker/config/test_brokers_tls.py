"""TLS between the brokers of several hosts, from settings."""

from __future__ import annotations

import pytest

from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.brokers_tls import brokers_tls
from purgatorio.broker.config.sources import ConfigError, load_cluster_config
from purgatorio.broker.security.tls import TlsSettings

ON_ETCD = {"store": "etcd://127.0.0.1", "brokers": "1"}
BY_CERTIFICATES = {
    **ON_ETCD,
    "security.inter.broker.protocol": "SSL",
    "listener.name.brokers.ssl.keystore.location": "own.pem",
    "listener.name.brokers.ssl.truststore.location": "brokers.pem",
}
CLIENTS = {"listeners": "SSL://127.0.0.1:9092", "ssl.keystore.location": "own.pem", "ssl.client.auth": "required"}


def loaded(given: dict[str, str]) -> ClusterConfig:
    return load_cluster_config(settings=given)


def test_brokers_speak_plain_text_unless_they_are_told_otherwise() -> None:
    assert brokers_tls(loaded({**ON_ETCD, "cluster.secret.file": "secret"}).broker_config(0)) is None


def test_brokers_have_files_of_their_own_and_always_ask_for_certificates() -> None:
    given = {**BY_CERTIFICATES, **CLIENTS, "ssl.truststore.location": "clients.pem", "ssl.client.auth": "requested"}
    given["ssl.endpoint.identification.algorithm"] = ""
    tls = brokers_tls(loaded(given).broker_config(0))
    assert tls == TlsSettings(
        keystore_location="own.pem", truststore_location="brokers.pem", client_auth="required", verifies_host=False
    )


def test_with_a_secret_as_well_clients_may_have_certificates_of_the_same_authority() -> None:
    given = {**BY_CERTIFICATES, **CLIENTS, "ssl.truststore.location": "brokers.pem", "cluster.secret.file": "secret"}
    assert loaded({**given, "security.inter.broker.protocol": "SASL_SSL"})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {"listener.name.brokers.ssl.keystore.location": None},
            "there is no keystore: set listener.name.brokers.ssl.keystore.location to a PEM file",
        ),
        ({"listener.name.brokers.ssl.truststore.location": None}, "there is no truststore"),
        ({"cluster.secret.file": "secret"}, "leave cluster.secret.file out, or set SASL_SSL for both"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "hosts could not recognize each other: set SASL_PLAINTEXT"),
        (
            {**CLIENTS, "ssl.truststore.location": "brokers.pem"},
            "clients of the listener SSL have certificates that brokers would take for a broker's",
        ),
        ({"host": "10.0.0.1"}, "set admin.token to the same at each of them, or admin.auth=none"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_set(changed: dict[str, str | None], why: str) -> None:
    given = {name: value for name, value in {**BY_CERTIFICATES, **changed}.items() if value is not None}
    with pytest.raises(ConfigError) as refused:
        loaded(given)
    assert why in str(refused.value)
