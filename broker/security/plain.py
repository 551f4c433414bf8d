"""PLAIN (RFC 4616): the client sends its name and password, readable for all between it and the broker without TLS.

Settings list the users: `sasl.jaas.config`, as Kafka's brokers have it, and `sasl.users`, those of SCRAM, too.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, SaslStep

NAME = "PLAIN"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_ENTRY: Final = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)(?P<options>.*?);?\s*", re.S
)
_OPTION: Final = re.compile(r"\s*(?P<name>[^\s=\"';]+)=(?:\"(?P<quoted>(?:\\.|[^\"\\])*)\"|(?P<bare>[^\s\"';]+))", re.S)
_USER: Final = "user_"


class Plain:
    """PLAIN, also as the exchange: it has one step and no state.

    Args:
        passwords: by user. May change between two calls.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def begin(self) -> Plain:
        return self

    def step(self, token: bytes) -> SaslStep:
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
        return SaslStep(b"", Identity(name))


def _hash(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()


def plain_users(text: str) -> dict[str, str]:
    """Return the passwords by user: options `user_alice="alice-secret"` of the login module of PLAIN.

    Its `username` and `password` are those of brokers for each other, which have credentials of their own here.

    Raises:
        ValueError: the text is of another form, or names another login module. It is not repeated: it holds passwords.
    """
    entry = _ENTRY.fullmatch(text)
    if entry is None or entry["module"] != PLAIN_MODULE:
        raise ValueError(f'sasl.jaas.config must look like {PLAIN_MODULE} required user_alice="alice-secret";')
    users, options, position = {}, entry["options"].rstrip(), 0
    while position < len(options):
        option = _OPTION.match(options, position)
        if option is None:
            raise ValueError('sasl.jaas.config has an option that is not like user_alice="alice-secret"')
        position = option.end()
        if option["name"].startswith(_USER):
            quoted = option["quoted"]
            users[option["name"][len(_USER) :]] = option["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return users


def listed_users(text: str) -> dict[str, str]:
    """Return the passwords by user of a setting like `alice=alice-secret,bob=bob-secret`.

    Raises:
        ValueError: an entry is of another form, or a user is there twice. Entries are not repeated in the text.
    """
    users: dict[str, str] = {}
    for number, part in enumerate(text.split(","), 1):
        name, _, password = part.strip().partition("=")
        if not name or not password or name in users:
            raise ValueError(f"sasl.users must look like alice=alice-secret,bob=bob-secret; entry {number} does not")
        users[name] = password
    return users
