"""The principal of a TLS client: what its certificate stands for."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from purgatorio.broker.routing.request import ANONYMOUS, USER, Principal
from purgatorio.broker.security.distinguished_name import PrincipalMapping, distinguished_name

MAX_NAME_CHARS: Final = 2_000
"""The longest distinguished name that is matched; the principals of ACLs have at most 1,024 characters. A certificate
may have a name of 60 KB, which its owner chose: even a rule as simple as `^CN=(.*?),.*$` then took up to 9 s."""


class ClientCertificates:
    """Maps clients' certificates, which OpenSSL has verified, to principals.

    Args:
        rules: see `PrincipalMapping`.

    Raises:
        ValueError: a rule is malformed, or the package that reads certificates is not installed.
    """

    def __init__(self, rules: str) -> None:
        if find_spec("cryptography") is None:
            raise ValueError(
                "ssl.client.auth is set, but the package cryptography, which reads the clients' certificates, is not "
                "installed: pip install 'purgatorio[security]'"
            )
        self._mapping = PrincipalMapping(rules)

    def __call__(self, certificate: bytes | None) -> Principal | str:
        """Return the principal of a certificate in DER, ANONYMOUS without one; or why it has no name."""
        if certificate is None:
            return ANONYMOUS
        try:
            name = distinguished_name(certificate)
        except ValueError:  # OpenSSL accepts subjects that cryptography does not, such as T61Strings of Latin-1
            return "the subject of the client's certificate cannot be read"
        if len(name) > MAX_NAME_CHARS:
            return f"the distinguished name of the client has {len(name)} characters"
        mapped = self._mapping.name(name)
        return Principal(USER, mapped) if mapped else f"ssl.principal.mapping.rules have no name for {name}"
