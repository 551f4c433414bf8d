"""PLAIN (RFC 4616): the client sends its name and password, readable for all between it and the broker without TLS."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, Step

NAME = "PLAIN"


class Plain:
    """PLAIN, also as the exchange: it has one step and no state.

    Args:
        passwords: by user. May change between two calls.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def begin(self) -> Plain:
        return self

    def step(self, token: bytes) -> Step:
        """Check the client's one token: authorization id, name and password, with NULs between.

        Raises:
            AuthenticationFailed: see `SaslExchange.step`.
        """
        try:
            fields = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("the token is not UTF-8") from None
        if len(fields) != 3:
            raise AuthenticationFailed(f"the token has {len(fields)} fields, not 3")
        acting_as, name, password = fields
        if not name or not password:
            raise AuthenticationFailed("the name or the password is empty")
        expected = self._passwords.get(name)
        # Hashes, since the time of comparing strings reveals their lengths.
        right = hmac.compare_digest(_hash(password), _hash("" if expected is None else expected))
        if expected is None or not right:
            raise AuthenticationFailed(f"{'unknown' if expected is None else 'wrong password of'} user {name!r}")
        if acting_as not in ("", name):  # CVE-2017-12610: a client could act as any other
            raise AuthenticationFailed(f"user {name!r} may not act as {acting_as!r}")
        return Step(b"", Identity(name))


def _hash(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
