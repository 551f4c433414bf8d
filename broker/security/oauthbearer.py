"""OAUTHBEARER (RFC 7628, KIP-255): the client shows a token that another server has issued.

A failure takes two rounds: the broker answers with the reason as JSON, the client acknowledges that, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, SaslStep

NAME: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'

Check = Callable[[str], Identity]
"""Returns whose a token is, and when it expires; raises `AuthenticationFailed` if it is not valid."""


class OAuthBearer:
    """OAUTHBEARER.

    Args:
        check: checks tokens.
    """

    def __init__(self, check: Check) -> None:
        self._check = check

    def begin(self) -> OAuthBearerExchange:
        return OAuthBearerExchange(self._check)


class OAuthBearerExchange:
    """One login: a token, and after a wrong one the client's acknowledgement."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._failure: AuthenticationFailed | None = None

    def step(self, token: bytes) -> SaslStep:
        if self._failure is not None:
            raise self._failure
        acting_as, bearer = _read(token)
        try:
            identity = self._check(bearer)
            if acting_as not in ("", identity.name):
                raise AuthenticationFailed(f"the token of {identity.name!r} does not let it act as {acting_as!r}")
        except AuthenticationFailed as failure:
            self._failure = failure
            return SaslStep(INVALID_TOKEN)
        return SaslStep(b"", identity)


def _read(message: bytes) -> tuple[str, str]:
    """Return the authorization id, which may be empty, and the token."""
    try:
        header, *pairs = message.decode().split("\x01")
    except UnicodeDecodeError:
        raise AuthenticationFailed("the message is not UTF-8") from None
    flag, _, rest = header.partition(",")
    acting_as, comma, nothing = rest.partition(",")
    if flag not in ("n", "y") or not comma or nothing or (acting_as and not acting_as.startswith("a=")):
        raise AuthenticationFailed("the message is malformed")
    found = [pair.removeprefix("auth=") for pair in pairs if pair.startswith("auth=")]
    if pairs[-2:] != ["", ""] or len(found) != 1:
        raise AuthenticationFailed("the message has not one token")
    scheme, _, bearer = found[0].partition(" ")
    if scheme.lower() != "bearer" or not bearer.strip():
        raise AuthenticationFailed("the message has not one bearer token")
    return acting_as[2:], bearer.strip()
