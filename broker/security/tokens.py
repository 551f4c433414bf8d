"""Rules for tokens (RFC 7519), and tokens without a signature (KIP-255), which are for tests only."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final

from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity
from purgatorio.late import dataclass

MAX_TOKEN_CHARS: Final = 64 * 1024
MAX_NAME_CHARS: Final = 1_000

Claims = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The required claims of a token, besides that it has not expired.

    Attributes:
        audiences: one of them must be an audience of the token; empty: any may.
        issuer: its issuer; None: any.
        clock_skew_seconds: how much the clocks of broker and issuer may differ.
        name_claim: the claim that has the user's name.
    """

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    clock_skew_seconds: int = 30
    name_claim: str = "sub"

    def identity(self, claims: Claims, wall_ms: int) -> Identity:
        """Return whose the token with these claims is.

        Raises:
            AuthenticationFailed: it has expired or is not valid yet, is another's, or lacks a claim.
        """
        now, skew = wall_ms / 1000, self.clock_skew_seconds
        expires = _time(claims, "exp")
        if expires is None:
            raise AuthenticationFailed("the token has no expiry (exp)")
        if expires + skew <= now:
            raise AuthenticationFailed(f"the token expired {now - expires:.0f} s ago")
        for claim in ("nbf", "iat"):
            begins = _time(claims, claim)
            if begins is not None and begins - skew > now:
                raise AuthenticationFailed(f"the token is valid in {begins - now:.0f} s ({claim})")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise AuthenticationFailed(f"the token is of the issuer {_short(claims.get('iss'))}")
        if self.audiences and not set(self.audiences) & set(_texts(claims.get("aud"))):
            raise AuthenticationFailed(f"the token is for the audience {_short(claims.get('aud'))}")
        name = claims.get(self.name_claim)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
            raise AuthenticationFailed(f"the token has no name ({self.name_claim})")
        return Identity(name, int((expires + skew) * 1000))


def unsecured(rules: TokenRules, wall_ms: Callable[[], int]) -> Callable[[str], Identity]:
    """Return what checks tokens without a signature: any client can make one, for any name."""

    def check(token: str) -> Identity:
        header, claims = read_unverified(token)
        if header.get("alg") != "none" or not token.endswith("."):
            raise AuthenticationFailed("the token is not an unsecured one (alg none, no signature)")
        return rules.identity(claims, wall_ms())

    return check


def read_unverified(token: str) -> tuple[dict[str, Any], Claims]:
    """Return the header and the claims of a token, of which nothing has been verified.

    Raises:
        AuthenticationFailed: it is not a token.
    """
    parts = token.split(".")
    if len(token) > MAX_TOKEN_CHARS or len(parts) != 3:
        raise AuthenticationFailed("the token is too long, or has not three parts")
    header, claims = (_object(part) for part in parts[:2])
    return header, claims


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AuthenticationFailed("a part of the token is not an object in JSON")
    return found


def _time(claims: Claims, claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise AuthenticationFailed(f"the token has a claim {claim} that is not a time")
    return float(value)


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


def _short(value: object) -> str:
    return repr(value)[:100]
