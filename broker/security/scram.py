"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84): no password travels, and brokers do not know it.

Names and passwords are taken as they are: Kafka prepares neither with SASLprep. A login costs the broker four HMACs;
the client pays for the iterations. `ScramLogin` is the client's side, which brokers have of each other.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from purgatorio.broker.metadata.clients import ScramCredential, ScramCredentials, ScramMechanism, ScramUser
from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, SaslStep

NAMES: Final = {ScramMechanism.SCRAM_SHA_256: "SCRAM-SHA-256", ScramMechanism.SCRAM_SHA_512: "SCRAM-SHA-512"}
"""The registered names of the mechanisms."""
MIN_ITERATIONS: Final = 4_096
"""The fewest iterations; Java's client and kafkajs refuse fewer."""
MAX_ITERATIONS: Final = 16_384
"""The most iterations, as in Kafka."""
NONCE_BYTES: Final = 24
SALT_BYTES: Final = 24
MAX_ESCAPED_NAME_CHARS: Final = 3_000
"""The longest name in a message: each of a user's 1,000 characters may take three. Reading 512 KiB of them takes
0.2 s."""

_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
"""A nonce, as RFC 5802 has it: printable characters, and no comma."""
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[^\0]+")
"""An extension; Kafka gives them names of several letters (tokenauth)."""

_HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


def credential_of(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """Return what a broker keeps of a salted password (RFC 5802, section 3)."""
    kind = _HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", kind)
    server_key = hmac.digest(salted_password, b"Server Key", kind)
    return ScramCredential(salt, hashlib.new(kind, client_key).digest(), server_key, iterations)


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password; takes 1 to 6 ms."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def new_credential(mechanism: ScramMechanism, password: str, salt: bytes) -> ScramCredential:
    """Return what a broker keeps of a password, with the fewest iterations; takes 1 to 2 ms."""
    return credential_of(mechanism, salt, salted(mechanism, password, salt, MIN_ITERATIONS), MIN_ITERATIONS)


def new_nonce(random_bytes: Callable[[int], bytes]) -> str:
    """Return one side's part of a login's nonce."""
    return base64.b64encode(random_bytes(NONCE_BYTES)).decode()


class Scram:
    """One of the two mechanisms.

    Args:
        credentials: returns those of all users now.
        random_bytes: returns this many unpredictable bytes, for nonces.
        secret: the same for all brokers of a cluster, and unknown to clients: unknown users get their salts from it, so
            that an answer does not reveal which users exist.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credentials: Callable[[], ScramCredentials],
        random_bytes: Callable[[int], bytes],
        secret: bytes,
    ) -> None:
        self.mechanism = mechanism
        self._credentials = credentials
        self._random_bytes = random_bytes
        self._secret = secret

    def begin(self) -> ScramExchange:
        return ScramExchange(self.mechanism, self.credential, new_nonce(self._random_bytes))

    def credential(self, name: str) -> tuple[ScramCredential, bool]:
        """Return a user's credential and True; or one that no password fits, and False, after the same work."""
        made_up = self._made_up(name)
        found = self._credentials().get(ScramUser(name, self.mechanism))
        return (made_up, False) if found is None else (found, True)

    def _made_up(self, name: str) -> ScramCredential:
        kind = _HASHES[self.mechanism].encode()  # equal salts of both would reveal an unknown user
        salt = hmac.digest(self._secret, kind + b"\0" + name.encode(), "sha256")[:SALT_BYTES]
        key = hmac.digest(self._secret, b"no key" + salt, _HASHES[self.mechanism])
        return ScramCredential(salt, key, key, MIN_ITERATIONS)


class _First(NamedTuple):
    """The client's first message, read.

    Attributes:
        gs2_header: its beginning, which the last message repeats.
        bare: the rest.
    """

    gs2_header: str
    bare: str
    name: str
    nonce: str


class ScramExchange:
    """One login: two messages of the client, and two of the broker.

    Args:
        credential: returns a user's credential, and whether it exists.
        nonce: the broker's part of the nonce.
    """

    def __init__(
        self, mechanism: ScramMechanism, credential: Callable[[str], tuple[ScramCredential, bool]], nonce: str
    ) -> None:
        self._hash = _HASHES[mechanism]
        self._find = credential
        self._own_nonce = nonce
        self._first: _First | None = None
        self._server_first = ""
        self._credential: ScramCredential | None = None
        self._exists = False

    def step(self, token: bytes) -> SaslStep:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("a message is not UTF-8") from None
        return self._begin(text) if self._first is None else self._finish(self._first, text)

    def _begin(self, text: str) -> SaslStep:
        first = self._first = _read_first(text)
        credential, self._exists = self._find(first.name)
        self._credential = credential
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={first.nonce}{self._own_nonce},s={salt},i={credential.iterations}"
        return SaslStep(self._server_first.encode())

    def _finish(self, first: _First, text: str) -> SaslStep:
        assert self._credential is not None
        unproven, _, proof_text = text.rpartition(",p=")
        fields = unproven.split(",")
        begins = len(fields) > 1 and fields[0].startswith("c=") and fields[1].startswith("r=")
        if not begins or not _are_extensions(fields[2:]):
            raise AuthenticationFailed("the last message is malformed")
        if _base64(fields[0][2:]) != first.gs2_header.encode():
            raise AuthenticationFailed("the last message is for another channel")
        nonce = first.nonce + self._own_nonce
        if fields[1][2:] != nonce:  # CVE-2024-56128: all of it, or messages can be replayed
            twice = fields[1][2:] == first.nonce + nonce
            why = "has the client's part twice; Kafka 4 refuses that, too: librdkafka is right from 2.6.1 on (#4895)"
            raise AuthenticationFailed(f"the nonce {why if twice else 'is not the one of this login'}")
        signed = ",".join((first.bare, self._server_first, unproven)).encode()
        proven = self._proves(_base64(proof_text), signed)
        if not proven or not self._exists:
            raise AuthenticationFailed(f"{'wrong password of' if self._exists else 'unknown'} user {first.name!r}")
        signature = hmac.digest(self._credential.server_key, signed, self._hash)
        return SaslStep(b"v=" + base64.b64encode(signature), Identity(first.name))

    def _proves(self, proof: bytes, signed: bytes) -> bool:
        """Return whether the client knows the client key, whose hash the broker keeps."""
        assert self._credential is not None
        signature = hmac.digest(self._credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), self._credential.stored_key)


class ScramLogin:
    """The client's side of one login, at a server whose salt and iterations it knows.

    Args:
        salt: that of the user, as are the iterations and the salted password; the server may ask for no others.
        nonce: the client's part of the nonce, which no other login has.
    """

    def __init__(
        self, mechanism: ScramMechanism, name: str, salt: bytes, iterations: int, salted_password: bytes, nonce: str
    ) -> None:
        self._hash = _HASHES[mechanism]
        self._salted_password = salted_password
        self._nonce = nonce
        self._bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._ending = f",s={base64.b64encode(salt).decode()},i={iterations}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the last message: that the client knows the password.

        Raises:
            AuthenticationFailed: the server's first message is not an answer to this login's.
        """
        text = server_first.decode(errors="replace")
        nonce = text.removeprefix("r=").removesuffix(self._ending)
        if text != f"r={nonce}{self._ending}" or not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("its first message is not an answer to this login")
        unproven = f"c=biws,r={nonce}"
        signed = ",".join((self._bare, text, unproven)).encode()
        client_key = hmac.digest(self._salted_password, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), signed, self._hash)
        server_key = hmac.digest(self._salted_password, b"Server Key", self._hash)
        self._signature = b"v=" + base64.b64encode(hmac.digest(server_key, signed, self._hash))
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Make sure that the server knows the user's keys, too.

        Raises:
            AuthenticationFailed: it does not show so.
        """
        if not self._signature or not hmac.compare_digest(server_final, self._signature):
            raise AuthenticationFailed("its signature is wrong")


def _read_first(text: str) -> _First:
    fields = text.split(",")
    if len(fields) < 4 or fields[0] not in ("n", "y"):  # p=: bound to a channel, which no mechanism here is
        raise AuthenticationFailed("the first message is malformed")
    acting_as, bare = fields[1], fields[2:]
    if not bare[0].startswith("n=") or not bare[1].startswith("r="):  # m= would be an extension that must be known
        raise AuthenticationFailed("the first message is malformed")
    name, nonce = _name(bare[0][2:]), bare[1][2:]
    if not name or not _NONCE.fullmatch(nonce):
        raise AuthenticationFailed("the name or the nonce is empty or malformed")
    if not _are_extensions(bare[2:]):
        raise AuthenticationFailed("the nonce has a comma, or an extension is malformed")
    if acting_as and (not acting_as.startswith("a=") or _name(acting_as[2:]) != name):
        raise AuthenticationFailed(f"user {name!r} may not act as {acting_as!r}")
    if "tokenauth=true" in bare[2:]:
        raise AuthenticationFailed("there are no delegation tokens (KIP-48)")
    return _First(f"{fields[0]},{acting_as},", ",".join(bare), name, nonce)


def _are_extensions(fields: Sequence[str]) -> bool:
    """Return whether these are extensions; what is none may be the end of a nonce with a comma."""
    return all(map(_EXTENSION.fullmatch, fields))


def _name(text: str) -> str:
    """Return a name, in which a comma came as ``=2C`` and an equals sign as ``=3D``."""
    if len(text) > MAX_ESCAPED_NAME_CHARS:
        raise AuthenticationFailed(f"a name has {len(text)} characters")
    parts = text.split("=")
    for number, part in enumerate(parts[1:], 1):
        sign = {"2C": ",", "3D": "="}.get(part[:2])
        if sign is None:
            raise AuthenticationFailed("a name holds an equals sign")
        parts[number] = sign + part[2:]
    return "".join(parts)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationFailed("a field is not base64") from None
