"""Signed tokens, and the keys of their issuer: a JSON Web Key Set (RFC 7517), as KIP-768 has it.

A token is valid only if a key of the set has signed it by one of `ALGORITHMS`. Without a set, none is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity
from purgatorio.broker.security.tokens import TokenRules, read_unverified

if TYPE_CHECKING:
    from joserfc.jwk import Key

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
"""The algorithms with a public key. Neither none nor HS256 and the like: with these a client could sign its own tokens
with a key that everybody knows."""
MAX_KEYS: Final = 100
PUBLIC_KEY_TYPES: Final = ("RSA", "EC", "OKP")


class KeySetError(ValueError):
    """A key set cannot be used."""


class KeySet:
    """The keys of an issuer, as they were fetched last.

    Args:
        url: where they are fetched from.
        missed: called when a token names a key that is not there: the issuer may have a new one.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.missed: Callable[[], object] = lambda: None
        self._keys: dict[str | None, Key] = {}

    def replace(self, text: str | bytes) -> int:
        """Take the keys of a document in place of those that are known; return how many it has.

        Raises:
            KeySetError: it is no key set, or has no key that can be used; the known keys stay.
        """
        from joserfc import jwk  # not at the top: an extra, and slow to import
        from joserfc.errors import JoseError

        try:
            listed = json.loads(text)["keys"]
            found: dict[str | None, Key] = {}
            for each in listed[:MAX_KEYS]:
                if each.get("kty") in PUBLIC_KEY_TYPES and each.get("use", "sig") == "sig":
                    found[each.get("kid")] = jwk.import_key(each)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, JoseError) as error:
            raise KeySetError(f"not a key set: {type(error).__name__}") from None
        if not found:
            raise KeySetError("a key set without public keys for signatures")
        self._keys = found
        return len(found)

    def checked(self, rules: TokenRules, wall_ms: Callable[[], int]) -> Callable[[str], Identity]:
        """Return what checks tokens by these keys."""

        def check(token: str) -> Identity:
            header, claims = read_unverified(token)
            self._verify(token, header.get("kid"))
            return rules.identity(claims, wall_ms())

        return check

    def _verify(self, token: str, key_id: object) -> None:
        from joserfc import jws
        from joserfc.errors import JoseError

        key = self._key(key_id)
        registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        registry.max_header_length = 8 * 1024  # some issuers put their certificates there
        try:
            jws.deserialize_compact(token, key, algorithms=ALGORITHMS, registry=registry)
        except (JoseError, ValueError, TypeError) as error:
            raise AuthenticationFailed(f"the token's signature is not valid: {type(error).__name__}") from None

    def _key(self, key_id: object) -> Key:
        """Return the key that a token names; the only one if it names none."""
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        key = self._keys.get(key_id) if isinstance(key_id, str) else None
        if key is None:
            self.missed()
            raise AuthenticationFailed(f"no key {repr(key_id)[:100]} is known of the tokens' issuer")
        return key
