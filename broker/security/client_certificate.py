"""The principal of a TLS client: its certificate's distinguished name, or what rules make of it (KIP-371)."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final

from purgatorio.broker.routing.request import ANONYMOUS, USER, Principal

_EMAIL_OID: Final = "1.2.840.113549.1.9.1"
_DEFAULT: Final = "DEFAULT"
_RULE_START: Final = re.compile(r",\s*(?=RULE:|DEFAULT)")
_RULE: Final = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_REFERENCE: Final = re.compile(r"\$(\d)")
_IA5_STRING: Final = 0x16
MAX_NAME_CHARS: Final = 2_000
"""The longest distinguished name that is matched; the principals of ACLs have at most 1,024 characters. A certificate
may have a name of 60 KB, which its owner chose: even a rule as simple as `^CN=(.*?),.*$` then took up to 9 s."""


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate as Kafka writes it: RFC 2253, the last part first.

    Java knows no name for the email address, which is written by its number and value in DER.

    Args:
        certificate: in DER.

    Raises:
        ModuleNotFoundError: the package `cryptography` is not installed (the extra `security`).
    """
    from cryptography import x509  # not at the top: few listeners ask for certificates

    parts = []
    for rdn in reversed(x509.load_der_x509_certificate(certificate).subject.rdns):
        texts = []
        for attribute in rdn:
            if attribute.oid.dotted_string == _EMAIL_OID:
                value = str(attribute.value).encode("ascii", "replace")
                texts.append(f"{_EMAIL_OID}=#{_IA5_STRING:02x}{_der_length(len(value)).hex()}{value.hex()}")
            else:
                texts.append(attribute.rfc4514_string())
        parts.append("+".join(texts))
    return ",".join(parts)


def _der_length(length: int) -> bytes:
    if length < 0x80:
        return bytes([length])
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(size)]) + size


class PrincipalMapping:
    """Makes principals' names from distinguished names, by `ssl.principal.mapping.rules`.

    Args:
        rules: `RULE:pattern/replacement/`, with L or U after it for lower or upper case, or DEFAULT; commas between.
            The first rule whose pattern matches the whole name counts; `$1` is its first group.

    Raises:
        ValueError: a rule is malformed.
    """

    def __init__(self, rules: str) -> None:
        self._rules = [_parse(each.strip()) for each in _RULE_START.split(rules)]

    def name(self, distinguished: str) -> str | None:
        """Return the name; None if no rule matches, so that the client is refused."""
        for rule in self._rules:
            if rule is None:
                return distinguished
            pattern, replacement, case = rule
            match = pattern.fullmatch(distinguished)
            if match is not None:
                name = _filled(replacement, match)
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        return None


def _filled(replacement: str, match: re.Match[str]) -> str:
    return _REFERENCE.sub(lambda reference: match[int(reference[1])] or "", replacement)


def _parse(rule: str) -> tuple[re.Pattern[str], str, str] | None:
    if rule == _DEFAULT:
        return None
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(f"ssl.principal.mapping.rules has {rule!r}, which is not like RULE:^CN=(.*?),.*$/$1/L")
    try:
        pattern = re.compile(found["pattern"].replace(r"\/", "/"))
    except re.error as error:
        raise ValueError(f"ssl.principal.mapping.rules has {rule!r}, whose pattern is wrong: {error}") from None
    replacement = found["replacement"].replace(r"\/", "/")
    used = [int(each) for each in _REFERENCE.findall(replacement)]
    if used and max(used) > pattern.groups:
        raise ValueError(f"ssl.principal.mapping.rules has {rule!r}, whose pattern has only {pattern.groups} groups")
    return pattern, replacement, found["case"]


class ClientCertificates:
    """Maps clients' certificates, which OpenSSL has verified, to principals.

    Args:
        rules: see `PrincipalMapping`.

    Raises:
        ValueError: a rule is malformed, or the package that reads certificates is not installed.
    """

    def __init__(self, rules: str) -> None:
        if find_spec("cryptography") is None:
            from purgatorio import extras

            raise ValueError(
                "ssl.client.auth is set, but the package cryptography, which reads the clients' certificates, is not "
                f"installed: {extras.install('security')}"
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
