"""OAUTHBEARER: its two messages, what a token must say, and whose signature counts."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest

from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, SaslStep
from purgatorio.broker.security.oauthbearer import INVALID_TOKEN, OAuthBearer
from purgatorio.broker.security.signed_tokens import KeySet, KeySetError
from purgatorio.broker.security.tokens import TokenRules, unsecured

NOW_SECONDS = 1_700_000_000
VALID = {"sub": "alice", "exp": NOW_SECONDS + 60}


def _wall_ms() -> int:
    return NOW_SECONDS * 1_000


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _unsecured(claims: object, header: object = None) -> str:
    return f"{_part(header or {'alg': 'none'})}.{_part(claims)}."


def _message(token: str, acting_as: str = "", more: str = "") -> bytes:
    return f"n,{acting_as},\x01auth=Bearer {token}\x01{more}\x01".encode()


def _check(token: str) -> Identity:
    if token != "right":
        raise AuthenticationFailed("it is wrong")
    return Identity("alice", 5)


@pytest.mark.parametrize(
    "message",
    [
        _message("right"),
        _message("right", "a=alice"),
        _message("right", more="traceId=7\x01"),
        b"y,,\x01auth=bearer right\x01\x01",
    ],
)
def test_a_right_token(message: bytes) -> None:
    """With the name again, and with extensions, which are ignored."""
    assert OAuthBearer(_check).begin().step(message) == SaslStep(b"", Identity("alice", 5))


@pytest.mark.parametrize("message", [_message("wrong"), _message("right", "a=bob")])
def test_a_failure_takes_two_rounds(message: bytes) -> None:
    """JSON first; after the client's acknowledgement, or whatever it sends, the end."""
    for acknowledgement in (b"\x01", _message("right")):
        exchange = OAuthBearer(_check).begin()
        assert exchange.step(message) == SaslStep(INVALID_TOKEN)
        with pytest.raises(AuthenticationFailed):
            exchange.step(acknowledgement)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01auth=Bearer right\x01",
        b"n,,\x01auth=Basic right\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer right\x01auth=Bearer right\x01\x01",
        b"n,,\x01other=right\x01\x01",
        b"n,b=bob,\x01auth=Bearer right\x01\x01",
        b"p=x,,\x01auth=Bearer right\x01\x01",
        b"\xff",
    ],
)
def test_malformed_messages(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        OAuthBearer(_check).begin().step(message)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"exp": None}, "no expiry"),
        ({"exp": NOW_SECONDS - 30}, "expired 30 s ago"),
        ({"exp": "tomorrow"}, "exp that is not a time"),
        ({"exp": True}, "exp that is not a time"),
        ({"exp": float("inf")}, "exp that is not a time"),
        ({"exp": float("nan")}, "exp that is not a time"),
        ({"exp": 10**400}, "exp that is not a time"),
        ({"nbf": NOW_SECONDS + 31}, "valid in 31 s (nbf)"),
        ({"iat": NOW_SECONDS + 31}, "valid in 31 s (iat)"),
        ({"sub": None}, "no name (sub)"),
        ({"sub": ["alice"]}, "no name (sub)"),
        ({"sub": ""}, "no name (sub)"),
        ({"sub": "x" * 1_001}, "no name (sub)"),
        ({"iss": "https://other"}, "of the issuer 'https://other'"),
        ({"iss": None}, "of the issuer None"),
        ({"aud": "other"}, "for the audience 'other'"),
        ({"aud": [["kafka"]]}, "for the audience"),
        ({"aud": None}, "for the audience None"),
    ],
)
def test_what_a_token_must_say(changed: dict[str, Any], why: str) -> None:
    """Expiry, validity, name, issuer, audience; the clocks may differ by 30 s."""
    rules = TokenRules(audiences=("kafka", "purgatorio"), issuer="https://issuer")
    valid = {**VALID, "iss": "https://issuer", "aud": ["web", "kafka"], "nbf": NOW_SECONDS + 30}
    assert rules.identity(valid, _wall_ms()) == Identity("alice", (NOW_SECONDS + 90) * 1_000)
    claims = {key: value for key, value in {**valid, **changed}.items() if value is not None}
    with pytest.raises(AuthenticationFailed) as refused:
        rules.identity(claims, _wall_ms())
    assert why in str(refused.value)


def test_the_name_may_be_in_another_claim() -> None:
    rules = TokenRules(name_claim="email")
    assert rules.identity({"email": "a@b", "exp": NOW_SECONDS}, _wall_ms()).name == "a@b"


def test_unsecured_tokens() -> None:
    """With the algorithm none, and without a signature."""
    check = unsecured(TokenRules(), _wall_ms)
    assert check(_unsecured(VALID)).name == "alice"
    for token in (
        _unsecured(VALID, {"alg": "HS256"}),
        _unsecured(VALID, ["none"]),
        _unsecured(VALID) + "c2ln",
        _unsecured([VALID]),
        _unsecured(VALID)[:-1],
        f"{_part({'alg': 'none'})}.{base64.urlsafe_b64encode(b'[' * 40_000).decode()}.",
        f"{_part({'alg': 'none'})}.!!.",
        "x" * 70_000,
        "..",
        "",
    ):
        with pytest.raises(AuthenticationFailed):
            check(token)


class _Issuer:
    """Signs tokens."""

    def __init__(self, kind: str = "RSA", size: int | str = 2048, kid: str = "one") -> None:
        self.jwk = pytest.importorskip("joserfc.jwk")
        self.key = self.jwk.generate_key(kind, size, {"kid": kid})

    def document(self, *others: _Issuer, **changed: str) -> str:
        keys = [{**issuer.key.as_dict(private=False), **changed} for issuer in (self, *others)]
        return json.dumps({"keys": keys})

    def token(self, algorithm: str = "RS256", claims: dict[str, Any] = VALID, **header: str) -> str:
        from joserfc import jwt

        full = {"alg": algorithm, "kid": self.key.kid, **header}
        signed: str = jwt.encode(full, claims, self.key, algorithms=[algorithm])
        return signed


@pytest.fixture(scope="module")
def issuer() -> _Issuer:
    return _Issuer()


def _keys(document: str) -> KeySet:
    keys = KeySet("https://issuer/keys")
    keys.replace(document)
    return keys


@pytest.mark.parametrize(
    ("kind", "size", "algorithm"),
    [("RSA", 2048, "PS512"), ("EC", "P-256", "ES256"), ("EC", "P-384", "ES384"), ("OKP", "Ed25519", "Ed25519")],
)
def test_signed_tokens(issuer: _Issuer, kind: str, size: Any, algorithm: str) -> None:
    """Of any algorithm with a public key; the token names which of the keys."""
    other = _Issuer(kind, size, "two")
    check = _keys(issuer.document(other)).checked(TokenRules(), _wall_ms)
    assert check(issuer.token()).name == "alice"
    assert check(other.token(algorithm)).name == "alice"


def test_only_the_issuers_signature_counts(issuer: _Issuer) -> None:
    """Not none, not another's key under the same name, not a changed text, and not the public key as a password."""
    check = _keys(issuer.document()).checked(TokenRules(), _wall_ms)
    token = issuer.token()
    head, claims, signature = token.split(".")
    public = issuer.key.as_pem(private=False)
    unsigned = f"{_part({'alg': 'HS256', 'kid': 'one'})}.{claims}"
    proof = base64.urlsafe_b64encode(hmac.digest(public, unsigned.encode(), "sha256")).decode().rstrip("=")
    for forged in (
        _unsecured(VALID, {"alg": "none", "kid": "one"}),
        f"{head}.{claims}.",
        f"{head}.{_part({**VALID, 'sub': 'bob'})}.{signature}",
        _Issuer(kid="one").token(),
        f"{unsigned}.{proof}",
    ):
        with pytest.raises(AuthenticationFailed):
            check(forged)


def test_an_unknown_key_is_missed(issuer: _Issuer) -> None:
    """So that the keys are fetched again; without any keys no token is valid."""
    missed: list[bool] = []
    for keys in (KeySet("https://issuer/keys"), _keys(_Issuer(kid="two").document(_Issuer(kid="three")))):
        keys.missed = lambda: missed.append(True)
        with pytest.raises(AuthenticationFailed, match="no key 'one'"):
            keys.checked(TokenRules(), _wall_ms)(issuer.token())
    assert len(missed) == 2


def test_documents_that_are_no_key_sets(issuer: _Issuer) -> None:
    """The keys that were known stay; secret keys and those for encryption are none."""
    keys = _keys(issuer.document())
    secret = json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]})
    for document in ("", "[]", "{}", '{"keys": [7]}', '{"keys": []}', secret, issuer.document(use="enc"), "[" * 9_000):
        with pytest.raises(KeySetError):
            keys.replace(document)
    assert keys.checked(TokenRules(), _wall_ms)(issuer.token()).name == "alice"


def test_a_token_without_a_key_id_needs_the_only_key(issuer: _Issuer) -> None:
    from joserfc import jwt

    token = jwt.encode({"alg": "RS256"}, VALID, issuer.key, algorithms=["RS256"])
    assert _keys(issuer.document()).checked(TokenRules(), _wall_ms)(token).name == "alice"
    with pytest.raises(AuthenticationFailed, match="no key None"):
        _keys(issuer.document(_Issuer(kid="two"))).checked(TokenRules(), _wall_ms)(token)
