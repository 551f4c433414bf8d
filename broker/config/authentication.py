"""How the clients of a listener authenticate, and the first users of a cluster, from a broker's settings."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlsplit

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.listeners import ListenerConfig, listener_configs
from purgatorio.broker.metadata.clients import ScramCredential, ScramCredentials, ScramMechanism, ScramUser
from purgatorio.broker.security import oauthbearer, plain, scram
from purgatorio.broker.security.mechanism import SaslMechanism
from purgatorio.broker.security.oauthbearer import OAuthBearer
from purgatorio.broker.security.plain import Plain, listed_users, plain_users
from purgatorio.broker.security.sasl import SaslSettings
from purgatorio.broker.security.scram import SALT_BYTES, Scram, new_credential
from purgatorio.broker.security.signed_tokens import KeySet
from purgatorio.broker.security.tokens import TokenRules, unsecured
from purgatorio.late import dataclass

_JAAS: Final = "sasl_jaas_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationServices:
    """The services of a broker that mechanisms need.

    Attributes:
        credentials: returns the SCRAM credentials of the cluster now.
        random_bytes: returns this many unpredictable bytes.
        secret: the same for all brokers of the cluster; see `Scram`.
        wall_ms: the clock's, for tokens.
        keys: the keys of tokens' issuers by URL, which `sasl_settings` adds to, and the broker keeps fresh.
    """

    credentials: Callable[[], ScramCredentials]
    random_bytes: Callable[[int], bytes]
    secret: bytes
    wall_ms: Callable[[], int]
    keys: dict[str, KeySet] = field(default_factory=dict)


def sasl_settings(config: BrokerConfig, listener: ListenerConfig, services: AuthenticationServices) -> SaslSettings:
    """Return how clients of a listener with SASL authenticate.

    Raises:
        ValueError: a setting cannot be used; the text says which.
    """
    given = {**config.model_dump(), **listener.settings}
    mechanisms = given["sasl_enabled_mechanisms"].split(",")
    _check_names(listener, mechanisms)
    return SaslSettings(
        mechanisms={name: _mechanism(name, given, services) for name in mechanisms},
        max_request_bytes=given["sasl_server_max_receive_size"],
        failure_delay_ms=config.connection_failed_authentication_delay_ms,
        max_reauth_ms=given["connections_max_reauth_ms"],
    )


def check_authentication(config: BrokerConfig) -> None:
    """Check the settings of all listeners before any is opened.

    Raises:
        ValueError: as `sasl_settings` and `first_credentials`.
    """
    services = AuthenticationServices(credentials=dict, random_bytes=bytes, secret=b"", wall_ms=int)
    _listed(config.sasl_users)
    for listener in listener_configs(config):
        if listener.protocol.has_sasl:
            sasl_settings(config, listener, services)


def first_credentials(config: BrokerConfig, random_bytes: Callable[[int], bytes]) -> ScramCredentials:
    """Return the SCRAM credentials of the users in `sasl.users`; takes 3 ms for each.

    Raises:
        ValueError: the setting cannot be used.
    """
    found: dict[ScramUser, ScramCredential] = {}
    for name, password in _listed(config.sasl_users).items():
        for mechanism in ScramMechanism:
            found[ScramUser(name, mechanism)] = new_credential(mechanism, password, random_bytes(SALT_BYTES))
    return found


def _mechanism(name: str, given: Mapping[str, Any], services: AuthenticationServices) -> SaslMechanism:
    if name == plain.NAME:
        of_plain = given.get(f"plain_{_JAAS}") or given[_JAAS]
        return Plain({**_listed(given["sasl_users"]), **(plain_users(of_plain) if of_plain else {})})
    if name == oauthbearer.NAME:
        return OAuthBearer(_token_check(given, services))
    mechanism = next(each for each, its_name in scram.NAMES.items() if its_name == name)
    return Scram(mechanism, services.credentials, services.random_bytes, services.secret)


def _token_check(given: Mapping[str, Any], services: AuthenticationServices) -> oauthbearer.Check:
    """Return what checks tokens; an issuer without keys is no reason to check none (CVE-2026-110985)."""
    audiences = given["sasl_oauthbearer_expected_audience"] or ""
    rules = TokenRules(
        audiences=tuple(each.strip() for each in audiences.split(",") if each.strip()),
        issuer=given["sasl_oauthbearer_expected_issuer"],
        clock_skew_seconds=given["sasl_oauthbearer_clock_skew_seconds"],
        name_claim=given["sasl_oauthbearer_sub_claim_name"],
    )
    url = given["sasl_oauthbearer_jwks_endpoint_url"]
    if (url is not None) is given["sasl_oauthbearer_unsecured"]:
        raise ValueError(
            "OAUTHBEARER needs either sasl.oauthbearer.jwks.endpoint.url, or sasl.oauthbearer.unsecured=true for tests"
        )
    if url is None:
        return unsecured(rules, services.wall_ms)
    _check_url(url)
    return services.keys.setdefault(url, KeySet(url)).checked(rules, services.wall_ms)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if (parts.scheme not in ("https", "http") or not parts.hostname) and (parts.scheme != "file" or not parts.path):
        raise ValueError(f"sasl.oauthbearer.jwks.endpoint.url is {url!r}, which is not an https, http or file URL")
    if importlib.util.find_spec("joserfc") is None:
        from purgatorio import extras

        raise ValueError(f"sasl.oauthbearer.jwks.endpoint.url needs joserfc: {extras.install('oauth')}")


def _listed(users: str | None) -> dict[str, str]:
    return listed_users(users) if users else {}


def _check_names(listener: ListenerConfig, mechanisms: list[str]) -> None:
    """Refuse settings of a mechanism at a listener that are not there, or of a mechanism that is not enabled."""
    known = {*BrokerConfig.model_fields, *(f"{name.lower().replace('-', '_')}_{_JAAS}" for name in mechanisms)}
    for name in listener.settings:
        if name not in known:
            dotted = f"listener.name.{listener.name.lower()}.{name.replace('_', '.')}"
            raise ValueError(f"{dotted} is of no mechanism in sasl.enabled.mechanisms ({', '.join(mechanisms)})")
