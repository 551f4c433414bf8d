"""Brokers prove to each other that they have the cluster's secret, and which of them they are."""

from __future__ import annotations

import random

import pytest

from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.security.broker_credentials import BrokerCredentials, BrokerExchange
from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity
from purgatorio.broker.security.scram import ScramLogin

AT = Endpoint("BROKERS", "127.0.0.1", 40_000)
OURS = BrokerCredentials(b"a secret", random.Random(1).randbytes)
THEIRS = BrokerCredentials(b"another", random.Random(2).randbytes)


def proved(login: ScramLogin, exchange: BrokerExchange) -> Identity | None:
    """Let two sides log in; returns which broker the one that is connected to has recognized."""
    step = exchange.step(login.final(exchange.step(login.first()).token))
    login.verify(step.token)
    return step.identity


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "broker-2-to-3.test", "odd,=name"])
def test_a_broker_of_the_cluster_is_known_by_its_id_and_is_no_user(host: str) -> None:
    at = AT._replace(host=host)
    identity = proved(OURS.login(3, 2, at), OURS.exchange(2, at))
    assert identity is not None
    assert (identity.type, identity.name) == ("Broker", "3")


@pytest.mark.parametrize(
    "login",
    [
        THEIRS.login(3, 2, AT),
        OURS.login(3, 1, AT),
        OURS.login(2, 3, AT),
        OURS.login(3, 2, AT._replace(port=40_001)),
        OURS.login(3, 2, AT._replace(host="127.0.0.2")),
        OURS.login(3, 22, AT),
    ],
)
def test_another_secret_broker_or_address_is_refused(login: ScramLogin) -> None:
    """So is the proof for one broker that is passed on to another one, or to the same one elsewhere."""
    with pytest.raises(AuthenticationFailed):
        proved(login, OURS.exchange(2, AT))


@pytest.mark.parametrize("name", ["", "broker-", "3", "broker-x", "broker-\u0663", "broker--1", "broker-3 "])
def test_only_a_number_is_a_brokers_id(name: str) -> None:
    login = OURS.login(3, 2, AT)
    login._bare = login._bare.replace("broker-3", name, 1)
    with pytest.raises(AuthenticationFailed):
        proved(login, OURS.exchange(2, AT))


def test_a_recorded_login_is_refused_later() -> None:
    """Both of its messages, at the broker that they were for."""
    login, exchange = OURS.login(3, 2, AT), OURS.exchange(2, AT)
    first = login.first()
    final = login.final(exchange.step(first).token)
    assert exchange.step(final).identity is not None
    later = OURS.exchange(2, AT)
    later.step(first)
    with pytest.raises(AuthenticationFailed, match="nonce"):
        later.step(final)


def test_no_two_logins_are_alike() -> None:
    """Neither side's part of the nonce comes again."""
    logins = [(OURS.login(3, 2, AT).first(), OURS.exchange(2, AT).step(OURS.login(3, 2, AT).first())) for _ in "ab"]
    assert logins[0][0] != logins[1][0]
    assert logins[0][1] != logins[1][1]


def test_what_only_repeats_an_answer_is_not_believed() -> None:
    """A process that has heard another login, and one that has another cluster's secret."""
    heard = OURS.exchange(2, AT)
    login = OURS.login(3, 2, AT)
    server_first = heard.step(login.first()).token
    server_final = heard.step(login.final(server_first)).token
    again = OURS.login(3, 2, AT)
    with pytest.raises(AuthenticationFailed, match="not an answer to this login"):
        again.final(server_first)
    nonce = again.first().rpartition(b"r=")[2]
    again.final(b"r=" + nonce + b"more" + server_first[server_first.index(b",") :])
    with pytest.raises(AuthenticationFailed, match="signature"):
        again.verify(server_final)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"v=",
        b"e=other-error",
        b"r=,s=,i=1",
        b"\xff",
        b"r=%s,s=YnJva2VycyBvZiBvbmUgY2x1c3Rlcg==,i=4096",
        b"r=%smore,s=YnJva2VycyBvZiBvbmUgY2x1c3Rlcg==,i=1",
        b"r=%smore,s=AAAA,i=4096",
    ],
)
def test_no_other_salt_fewer_iterations_or_half_a_nonce(answer: bytes) -> None:
    """What answers could else make a proof easier to guess from."""
    login = OURS.login(3, 2, AT)
    nonce = login.first().rpartition(b"r=")[2]
    with pytest.raises(AuthenticationFailed, match="not an answer"):
        login.final(answer.replace(b"%s", nonce))


def test_no_signature_is_taken_before_a_proof_was_asked_for() -> None:
    login = OURS.login(3, 2, AT)
    with pytest.raises(AuthenticationFailed):
        login.verify(b"")


def test_the_keys_are_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thousand iterations and more, which no connection waits for."""
    proved(OURS.login(3, 2, AT), OURS.exchange(2, AT))
    monkeypatch.setattr("hashlib.pbkdf2_hmac", None)
    proved(OURS.login(1, 2, AT), OURS.exchange(2, AT))
