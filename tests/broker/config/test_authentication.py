"""The settings about SASL: what they come to, what is refused, and that no password is shown."""

from __future__ import annotations

import random

import pytest

from purgatorio.broker.config.authentication import AuthenticationServices, first_credentials, sasl_settings
from purgatorio.broker.config.descriptions import BrokerDescription, as_toml
from purgatorio.broker.config.listeners import listener_configs
from purgatorio.broker.config.sources import ConfigError, load_cluster_config
from purgatorio.broker.metadata.clients import ScramMechanism, ScramUser
from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity
from purgatorio.broker.security.plain import PLAIN_MODULE
from purgatorio.broker.security.sasl import SaslSettings
from purgatorio.broker.security.scram import new_credential

LISTENERS = {
    "listeners": "EXTERNAL://:9092,INTERNAL://:19092",
    "listener.security.protocol.map": "EXTERNAL:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
}


def _settings(listener: int = 0, **given: str) -> SaslSettings:
    config = load_cluster_config(settings={"brokers": "1", **LISTENERS, **given}).broker_configs()[0]
    services = AuthenticationServices(
        credentials=dict, random_bytes=random.Random(1).randbytes, secret=b"s", wall_ms=int
    )
    return sasl_settings(config, listener_configs(config)[listener], services)


def test_the_defaults_are_kafkas_but_for_the_mechanisms() -> None:
    found = _settings()
    assert list(found.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert (found.max_request_bytes, found.failure_delay_ms, found.max_reauth_ms) == (524_288, 100, 0)


def test_a_listener_has_settings_of_its_own() -> None:
    """And others have those of all."""
    given = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.external.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.external.connections.max.reauth.ms": "5000",
    }
    assert (list(_settings(**given).mechanisms), _settings(**given).max_reauth_ms) == (["PLAIN"], 5_000)
    assert (list(_settings(1, **given).mechanisms), _settings(1, **given).max_reauth_ms) == (["SCRAM-SHA-512"], 0)


def test_users_of_plain() -> None:
    """From both settings; those of a listener's own JAAS entry at this one only."""
    given = {
        "sasl.users": "alice=a",
        "listener.name.external.plain.sasl.jaas.config": f"{PLAIN_MODULE} required user_bob=b;",
    }
    for listener, name, password, known in ((0, "alice", "a", True), (0, "bob", "b", True), (1, "bob", "b", False)):
        exchange = _settings(listener, **given).mechanisms["PLAIN"].begin()
        token = f"\0{name}\0{password}".encode()
        if known:
            assert exchange.step(token).identity == Identity(name)
        else:
            with pytest.raises(AuthenticationFailed):
                exchange.step(token)


def test_first_users_have_credentials_of_both_mechanisms() -> None:
    config = load_cluster_config(settings={"sasl.users": "alice=a,bob=b"}).broker
    found = first_credentials(config, random.Random(1).randbytes)
    assert len(found) == 4
    of_bob = found[ScramUser("bob", ScramMechanism.SCRAM_SHA_512)]
    assert of_bob == new_credential(ScramMechanism.SCRAM_SHA_512, "b", of_bob.salt)
    assert len({each.salt for each in found.values()}) == 4


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("sasl.enabled.mechanisms", "GSSAPI", "sasl.enabled.mechanisms"),
        ("sasl.users", "secret", "sasl.users must look like alice=alice-secret"),
        ("sasl.jaas.config", "secret", "sasl.jaas.config must look like"),
        ("listener.name.external.plain.sasl.jaas.config", "secret", "sasl.jaas.config must look like"),
        ("listener.name.external.gssapi.sasl.jaas.config", "secret", "listener.name.external.gssapi.sasl.jaas.config"),
    ],
)
def test_what_cannot_be_is_refused_before_the_start_without_a_password(name: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _settings(**{name: value})
    assert problem in str(refused.value)
    assert "'secret'" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "OAUTHBEARER needs either sasl.oauthbearer.jwks.endpoint.url"),
        ({"unsecured": "true", "jwks.endpoint.url": "https://issuer/keys"}, "OAUTHBEARER needs either"),
        ({"jwks.endpoint.url": "issuer/keys"}, "not an https, http or file URL"),
        ({"jwks.endpoint.url": "ftp://issuer/keys"}, "not an https, http or file URL"),
    ],
)
def test_tokens_are_checked_or_openly_not(given: dict[str, str], problem: str) -> None:
    """A forgotten address of the keys must not let every client in (CVE-2026-110985)."""
    settings = {f"sasl.oauthbearer.{name}": value for name, value in given.items()}
    with pytest.raises(ConfigError, match=problem):
        _settings(**{"sasl.enabled.mechanisms": "OAUTHBEARER"}, **settings)


def test_keys_are_shared_by_listeners_and_unknown_at_first() -> None:
    """No token is valid before the first fetch."""
    url = "https://issuer/keys"
    given = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": url}
    config = load_cluster_config(settings={"brokers": "1", **LISTENERS, **given}).broker_configs()[0]
    services = AuthenticationServices(credentials=dict, random_bytes=bytes, secret=b"s", wall_ms=int)
    exchanges = [
        sasl_settings(config, each, services).mechanisms["OAUTHBEARER"].begin() for each in listener_configs(config)
    ]
    assert list(services.keys) == [url]
    for exchange in exchanges:
        token = b"n,,\x01auth=Bearer e30.e30.c2ln\x01\x01"
        assert exchange.step(token).identity is None


def test_no_password_is_shown() -> None:
    """DescribeConfigs and `purgatorio config` tell that there is one."""
    given = {
        "sasl.users": "alice=hidden",
        "listener.name.external.plain.sasl.jaas.config": f"{PLAIN_MODULE} required user_bob=hidden;",
    }
    config = load_cluster_config(settings={**LISTENERS, **given})
    shown = BrokerDescription(config.broker)
    assert shown["sasl.users"].value is None
    assert not any("hidden" in (each.value or "") for each in shown.values())
    assert "hidden" not in as_toml(config)
    assert "hidden" not in repr(config)
