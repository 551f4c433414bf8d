"""SCRAM: the exchange of RFC 7677, another implementation as the client, and attacks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random

import pytest

from purgatorio.broker.metadata.clients import ScramCredential, ScramMechanism, ScramUser
from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity
from purgatorio.broker.security.scram import NAMES, Scram, ScramExchange, credential_of, new_credential, salted

SHA_256, SHA_512 = ScramMechanism
SALT = bytes(range(24))


def _scram(mechanism: ScramMechanism = SHA_256, **passwords: str) -> Scram:
    users = {
        ScramUser(name, mechanism): new_credential(mechanism, password, SALT) for name, password in passwords.items()
    }
    rng = random.Random(7)
    return Scram(mechanism, lambda: users, rng.randbytes, b"secret")


class _Client:
    """A client of its own, which can be told to break the rules."""

    def __init__(self, name: str, password: str, mechanism: ScramMechanism = SHA_256) -> None:
        self.kind = "sha256" if mechanism is SHA_256 else "sha512"
        self.password = password
        self.bare = f"n={name},r=clientnonce"
        self.header = "n,,"
        self.extension = ""

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, server_first: bytes, nonce: str | None = None, header: str | None = None) -> bytes:
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        salted_password = hashlib.pbkdf2_hmac(
            self.kind, self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
        )
        client_key = hmac.digest(salted_password, b"Client Key", self.kind)
        stored_key = hashlib.new(self.kind, client_key).digest()
        encoded = base64.b64encode((self.header if header is None else header).encode()).decode()
        unproven = f"c={encoded},r={nonce or fields['r']}{self.extension}"
        signed = f"{self.bare},{server_first.decode()},{unproven}".encode()
        signature = hmac.digest(stored_key, signed, self.kind)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


def test_the_exchange_of_rfc_7677() -> None:
    """Its section 3, byte for byte."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    known = credential_of(SHA_256, salt, salted(SHA_256, "pencil", salt, 4096), 4096)
    exchange = ScramExchange(SHA_256, lambda name: (known, name == "user"), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first.identity is None
    assert first.token == (b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    last = exchange.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert last.identity == Identity("user")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_scramp_logs_in(mechanism: ScramMechanism) -> None:
    """And believes the broker's signature."""
    scramp = pytest.importorskip("scramp")
    exchange = _scram(mechanism, alice="alice-secret").begin()
    client = scramp.ScramClient([NAMES[mechanism]], "alice", "alice-secret")
    client.set_server_first(exchange.step(client.get_client_first().encode()).token.decode())
    last = exchange.step(client.get_client_final().encode())
    client.set_server_final(last.token.decode())
    assert last.identity == Identity("alice")


@pytest.mark.parametrize("name", ["a,b", "a=b", "=2C", "zoë", "User:*", "a b\n", "\U0001f600" * 200])
def test_names_of_odd_characters(name: str) -> None:
    """A comma and an equals sign are escaped; nothing is prepared."""
    scram = _scram(**{name: "päss"})
    client = _Client(name.replace("=", "=3D").replace(",", "=2C"), "päss")
    exchange = scram.begin()
    assert exchange.step(client.final(exchange.step(client.first()).token)).identity == Identity(name)


@pytest.mark.parametrize(
    "first",
    [
        "p=tls-unique,,n=alice,r=x",
        "n,,m=ext,n=alice,r=x",
        "n,a=bob,n=alice,r=x",
        "n,,n=alice",
        "n,,n=,r=x",
        "n,,n=alice,r=",
        "n,,n=al=ice,r=x",
        "n,,n=al=2,r=x",
        "n,,n=alice,r=x,tokenauth=true",
        "n,,n=alice,r=\u00e4",
        "n,,n=alice,r=x y",
        "n,,n=alice,r=x,y",
        "n,,n=alice,r=x,",
        "n,,n=alice,r=x,y=",
        "n,,n=alice,r=x,1=y",
        f"n,,n={'=2C' * 1_001},r=x",
        f"n,a={'=2C' * 1_001},n=alice,r=x",
        "",
        ",,,,",
    ],
)
def test_malformed_first_messages(first: str) -> None:
    """Channel binding, an unknown extension, another name, no name or nonce, a bad escape, a token, a space or a comma
    in the nonce (RFC 5802, section 7), extensions that are none, long names."""
    with pytest.raises(AuthenticationFailed):
        _scram(alice="secret").begin().step(first.encode())


def test_a_wrong_password_and_an_unknown_user_look_alike() -> None:
    """Up to the end: the same steps, a salt that stays the same; the log knows more."""
    scram = _scram(alice="alice-secret")
    seen = {}
    for name in ("alice", "mallory"):
        exchange, client = scram.begin(), _Client(name, "wrong")
        first = exchange.step(client.first())
        seen[name] = first.token
        with pytest.raises(AuthenticationFailed, match=name):
            exchange.step(client.final(first.token))
    assert [len(token) for token in seen.values()] == [len(seen["alice"])] * 2
    again = scram.begin().step(_Client("mallory", "x").first()).token
    assert again.split(b",")[1:] == seen["mallory"].split(b",")[1:]
    assert seen["alice"].split(b",")[1] != seen["mallory"].split(b",")[1]


def test_a_made_up_salt_is_another_for_each_mechanism() -> None:
    """As a user's are; equal ones told an attacker who asked by both that the user does not exist."""
    salts = {_scram(mechanism).credential("mallory")[0].salt for mechanism in ScramMechanism}
    assert len(salts) == 2


def test_no_proof_fits_a_made_up_credential() -> None:
    """Not even that of a client which knows what the broker made up."""
    scram = _scram()
    credential, exists = scram.credential("mallory")
    assert not exists
    everybody = ScramExchange(SHA_256, lambda name: (credential, False), "n")
    client = _Client("mallory", "x")
    first = everybody.step(client.first()).token
    made_up = credential_of(SHA_256, credential.salt, salted(SHA_256, "x", credential.salt, 4096), 4096)
    knowing = ScramExchange(SHA_256, lambda name: (made_up, False), "n")
    assert knowing.step(client.first()).token == first
    with pytest.raises(AuthenticationFailed, match="unknown"):
        knowing.step(client.final(first))


def test_a_recorded_login_cannot_be_replayed() -> None:
    """The broker's part of the nonce is another one each time (CVE-2024-56128)."""
    scram, client = _scram(alice="secret"), _Client("alice", "secret")
    exchange = scram.begin()
    recorded = client.final(exchange.step(client.first()).token)
    assert exchange.step(recorded).identity == Identity("alice")
    later = scram.begin()
    later.step(client.first())
    with pytest.raises(AuthenticationFailed, match="nonce"):
        later.step(recorded)


@pytest.mark.parametrize(
    ("nonce", "header", "proof"),
    [("clientnonce", None, None), (None, "y,,", None), (None, None, b"AAAA"), (None, None, b"%%%"), (None, None, b"")],
)
def test_tampered_last_messages(nonce: str | None, header: str | None, proof: bytes | None) -> None:
    """Half of the nonce, another header, a proof that is short, not base64, or empty."""
    exchange, client = _scram(alice="secret").begin(), _Client("alice", "secret")
    last = client.final(exchange.step(client.first()).token, nonce, header)
    if proof is not None:
        last = last[: last.rindex(b",p=") + 3] + proof
    with pytest.raises(AuthenticationFailed):
        exchange.step(last)


def test_extensions_are_signed_and_otherwise_ignored() -> None:
    """What looks like none, behind the nonce of the last message too, is refused."""
    for extension, fits in ((",x=1", True), (",word=a=b", True), (",x", False), (",x=", False), (",", False)):
        exchange, client = _scram(alice="secret").begin(), _Client("alice", "secret")
        client.extension = extension
        last = client.final(exchange.step(client.first()).token)
        if fits:
            assert exchange.step(last).identity == Identity("alice")
            continue
        with pytest.raises(AuthenticationFailed, match="the last message is malformed"):
            exchange.step(last)


def test_a_changed_credential_counts_at_the_next_login() -> None:
    """Users are looked up in each exchange."""
    users: dict[ScramUser, ScramCredential] = {}
    scram = Scram(SHA_512, lambda: users, random.Random(1).randbytes, b"s")
    client = _Client("alice", "new", SHA_512)
    users[ScramUser("alice", SHA_512)] = new_credential(SHA_512, "new", SALT)
    exchange = scram.begin()
    assert exchange.step(client.final(exchange.step(client.first()).token)).identity == Identity("alice")
    users.clear()
    exchange = scram.begin()
    with pytest.raises(AuthenticationFailed):
        exchange.step(client.final(exchange.step(client.first()).token))


def test_no_key_is_shown() -> None:
    """Logs and failed tests show what a credential's text says."""
    assert repr(new_credential(SHA_256, "secret", SALT)) == "ScramCredential(iterations=4096)"


def test_a_client_that_repeats_its_part_of_the_nonce_is_refused_and_named() -> None:
    """librdkafka before 2.6.1 does so (#4895); Kafka 4 refuses it, and the broker's log names the cause."""
    exchange = _scram(alice="secret").begin()
    client = _Client("alice", "secret")
    server_first = exchange.step(client.first()).token
    nonce = server_first.decode().partition(",")[0][2:]
    with pytest.raises(AuthenticationFailed, match=r"librdkafka is right from 2\.6\.1 on"):
        exchange.step(client.final(server_first, nonce=f"clientnonce{nonce}"))
