"""How the clients of a test's cluster speak to it: TLS, SASL, both, or neither."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Mapping
from dataclasses import field
from difflib import get_close_matches
from typing import Any, Final

from purgatorio.late import dataclass
from purgatorio.testing import certificates
from purgatorio.unpatched import wall_ns

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
FIRST_USERS: Final = "alice=alice-secret,bob=bob-secret"
"""The users of a cluster with SASL whose test names none, in the form of the setting `sasl.users`."""
USERS_SETTING: Final = "sasl_users"
TOKEN_SECONDS: Final = 10 * 365 * 24 * 3600
"""Tests move the brokers' time; a token should not end by that."""

_PROVIDERS: Final = {"aiokafka": ("aiokafka.abc", "async"), "kafka-python": ("kafka.net.sasl.oauth", "sync")}
"""The module with the base class of token providers, and of which kind its method is."""
_FASTSTREAM_CLASSES: Final = {
    None: "BaseSecurity",
    "PLAIN": "SASLPlaintext",
    "SCRAM-SHA-256": "SASLScram256",
    "SCRAM-SHA-512": "SASLScram512",
    "OAUTHBEARER": "SASLOAuthBearer",
}


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security of one cluster's clients.

    Attributes:
        mechanism: the SASL mechanism; None without SASL.
        passwords: by user, for SASL.
    """

    tls: bool = False
    mechanism: str | None = None
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def protocol(self) -> str:
        """Kafka's name for it (security.protocol)."""
        if self.mechanism is None:
            return "SSL" if self.tls else "PLAINTEXT"
        return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"

    def broker_settings(self) -> dict[str, str]:
        """Return the settings of brokers with such clients; none without security."""
        found = {}
        if self.protocol != "PLAINTEXT":
            found["listeners"] = f"{self.protocol}://127.0.0.1:0"
        if self.tls:
            found |= certificates.broker_settings()
        if self.mechanism is not None:
            found |= {USERS_SETTING: FIRST_USERS, "sasl_enabled_mechanisms": self.mechanism}
            if self.mechanism == "OAUTHBEARER":
                found["sasl_oauthbearer_unsecured"] = "true"
        return found

    def client_settings(self, library: str, user: str | None) -> dict[str, Any]:
        """Return the settings of a client that is `user`, in the words of its library.

        Args:
            user: None: anonymous without SASL, the first user with it.

        Raises:
            ValueError: the cluster has no such user, or no users at all.
        """
        if self.protocol == "PLAINTEXT":
            if user is not None:
                raise ValueError(
                    f"nobody is {user!r} on a cluster without security: ask for one with tls=True, or with sasl="
                )
            return {}
        if library == "faststream":
            login = self._login(user) if self.mechanism else ("", "")
            return _faststream_settings(self.tls, self.mechanism, login, None if self.mechanism else user)
        found = {_named("security_protocol", library): self.protocol}
        if self.tls:
            found |= certificates.client_settings(library, user if self.mechanism is None else None)
        return found if self.mechanism is None else found | self._sasl(library, user)

    def _login(self, user: str | None) -> tuple[str, str]:
        """Return the name and the password of a user; with OAUTHBEARER every client has a name, and no password."""
        name = next(iter(self.passwords)) if user is None else user
        if self.mechanism == "OAUTHBEARER":
            return name, ""
        if name not in self.passwords:
            known = ", ".join(self.passwords)
            raise ValueError(f"there is no user {name!r}, only {known}: name others in the setting sasl_users")
        return name, self.passwords[name]

    def _sasl(self, library: str, user: str | None) -> dict[str, Any]:
        name, password = self._login(user)
        chosen = {_named("sasl_mechanism", library): self.mechanism}
        if library == "java":
            return chosen | {"sasl.jaas.config": self._jaas(name, password)}
        if self.mechanism == "OAUTHBEARER":
            return chosen | token_settings(library, name)
        mine, own = (
            ("sasl.username", "sasl.password")
            if library == "confluent"
            else ("sasl_plain_username", "sasl_plain_password")
        )
        return chosen | {mine: name, own: password}

    def _jaas(self, name: str, password: str) -> str:
        """Return the login of a Java client; its OAUTHBEARER module makes tokens without a signature (KIP-255)."""
        common = "org.apache.kafka.common.security"
        if self.mechanism == "OAUTHBEARER":
            module = f"{common}.oauthbearer.OAuthBearerLoginModule"
            return f"{module} required unsecuredLoginStringClaim_sub={_quoted(name)};"
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        return f"{common}.{module} required username={_quoted(name)} password={_quoted(password)};"


def client_security(tls: bool, mechanism: str | None, users: str | None) -> ClientSecurity:
    """Return the security that a test asks for.

    Args:
        users: the setting `sasl.users`, if the test sets it.

    Raises:
        ValueError: there is no such mechanism, or the users are in another form.
    """
    if mechanism is None:
        return ClientSecurity(tls)
    if mechanism not in MECHANISMS:
        near = get_close_matches(mechanism.upper(), MECHANISMS, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(MECHANISMS)}"
        raise ValueError(f"{mechanism!r} is not a SASL mechanism{hint}")
    from purgatorio.broker.security.plain import listed_users  # not at the top: few clusters have users

    return ClientSecurity(tls, mechanism, listed_users(users or FIRST_USERS))


def _named(name: str, library: str) -> str:
    return name.replace("_", ".") if library in ("confluent", "java") else name


def _quoted(text: str) -> str:
    """Return text as a value in a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _faststream_settings(tls: bool, mechanism: str | None, login: tuple[str, str], user: str | None) -> dict[str, Any]:
    """Return the keywords of `faststream.kafka.KafkaBroker` for a cluster with TLS, SASL or both.

    Its security is an object: FastStream is imported for it. With TLS alone `user` is the name in the certificate.

    Raises:
        ModuleNotFoundError: FastStream is not installed.
    """
    security = getattr(importlib.import_module("faststream.security"), _FASTSTREAM_CLASSES[mechanism])
    context = certificates.client_context(user) if tls else None
    if mechanism is None or mechanism == "OAUTHBEARER":
        made = {"security": security(ssl_context=context, use_ssl=tls)}
        return made | (token_settings("aiokafka", login[0]) if mechanism else {})
    return {"security": security(*login, ssl_context=context, use_ssl=tls)}


def unsecured_token(name: str) -> str:
    """Return an unsigned token (KIP-255) of a user, which is valid for `TOKEN_SECONDS`."""
    claims = {"sub": name, "exp": wall_ns() // 1_000_000_000 + TOKEN_SECONDS}
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in ({"alg": "none"}, claims))
    return ".".join(part.rstrip("=") for part in parts) + "."


def token_settings(library: str, name: str) -> dict[str, Any]:
    """Return what gives a client its tokens, in the words of its library."""
    token = unsecured_token(name)
    if library == "confluent":
        return {"oauth_cb": lambda _: (token, wall_ns() / 1e9 + TOKEN_SECONDS)}
    return {"sasl_oauth_token_provider": _provider(library, token)}


def _provider(library: str, token: str) -> Any:
    """Return a token provider, which must be of a class of the library."""

    async def awaited(provider: object) -> str:
        return token

    module, method = _PROVIDERS[library]
    base = importlib.import_module(module).AbstractTokenProvider
    own = type("TokenProvider", (base,), {"token": awaited if method == "async" else lambda provider: token})
    return own()
