"""A connection's way to its principal: what is accepted when, lifetimes, and authenticating again."""

from __future__ import annotations

import dataclasses

from purgatorio.broker.routing.request import Principal
from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, SaslStep
from purgatorio.broker.security.plain import Plain
from purgatorio.broker.security.sasl import MAX_TOKEN_BYTES, Phase, SaslOutcome, SaslSession, SaslSettings
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from purgatorio.purgatory.clock import ManualClock

ALICE = Principal("User", "alice")


class _TwoSteps:
    """A mechanism of two steps, whose credentials expire."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.valid_ms = 5_000

    def begin(self) -> _TwoSteps:
        return self

    def step(self, token: bytes) -> SaslStep:
        if token == b"first":
            return SaslStep(b"go on")
        if token != b"second":
            raise AuthenticationFailed("neither")
        return SaslStep(b"welcome", Identity("alice", self.clock.wall_ms() + self.valid_ms))


class _Talk:
    def __init__(self, max_reauth_ms: int = 0) -> None:
        self.clock = ManualClock(now_ms=1_000)
        self.tokens = _TwoSteps(self.clock)
        mechanisms = {"PLAIN": Plain({"alice": "a", "bob": "b"}), "TOKENS": self.tokens}
        settings = SaslSettings(mechanisms=mechanisms, max_reauth_ms=max_reauth_ms)
        self.session = SaslSession(settings, self.clock.now_ms, self.clock.wall_ms)

    def choose(self, mechanism: str = "PLAIN", version: int = 1) -> tuple[SaslHandshakeResponse, str]:
        outcome = self.session.handshake(SaslHandshakeRequest(mechanism=mechanism), version)
        assert isinstance(outcome.response, SaslHandshakeResponse)
        return outcome.response, outcome.failure

    def outcome(self, token: bytes) -> SaslOutcome:
        return self.session.authenticate(SaslAuthenticateRequest(auth_bytes=token))

    def send(self, token: bytes = b"\0alice\0a") -> tuple[SaslAuthenticateResponse, str]:
        outcome = self.outcome(token)
        assert isinstance(outcome.response, SaslAuthenticateResponse)
        return outcome.response, outcome.failure


def test_a_client_chooses_and_authenticates() -> None:
    """All enabled mechanisms are told on success, too; there is a principal only after the proof."""
    talk = _Talk()
    response, failure = talk.choose("TOKENS")
    assert (response.error_code, response.mechanisms, failure) == (0, ["PLAIN", "TOKENS"], "")
    assert talk.send(b"first")[0].auth_bytes == b"go on"
    assert talk.session.principal is None
    last, failure = talk.send(b"second")
    assert (last.error_code, last.auth_bytes, last.session_lifetime_ms, failure) == (0, b"welcome", 0, "")
    assert talk.session.principal == ALICE
    assert talk.session.phase is Phase.DONE


def test_a_long_token_is_refused_unread() -> None:
    """Taking the 512 KiB of a request apart would hold the event loop for up to 40 ms; the longest token passes."""
    longest = MAX_TOKEN_BYTES
    for size, why in ((longest, "PLAIN: the token has"), (longest + 1, f"PLAIN: a token has {longest + 1} bytes")):
        talk = _Talk()
        talk.choose()
        response, failure = talk.send(b"\0" * size)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert failure.startswith(why)


def test_a_mechanism_that_is_not_enabled() -> None:
    """33 with the list, then the end."""
    response, failure = _Talk().choose("GSSAPI")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "TOKENS"]
    assert "GSSAPI" in failure


def test_wrong_credentials_and_unknown_users_get_one_answer() -> None:
    """58 and a text that tells nothing; the log knows more."""
    answers, logged = [], []
    for token in (b"\0alice\0wrong", b"\0mallory\0a", b"\0\0", b"\xff"):
        talk = _Talk()
        talk.choose()
        response, failure = talk.send(token)
        answers.append((response.error_code, response.error_message, bytes(response.auth_bytes)))
        logged.append(failure)
        assert talk.session.principal is None
    assert len(set(answers)) == 1
    assert answers[0][0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "wrong password of user 'alice'" in logged[0]
    assert "unknown user 'mallory'" in logged[1]


def test_a_token_without_a_handshake_closes_without_an_answer() -> None:
    """And a second handshake in place of a token with one."""
    talk = _Talk()
    assert talk.outcome(b"\0alice\0a").response is None
    talk.choose()
    response, failure = talk.choose()
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert failure


def test_sasl_requests_after_the_end_are_refused_and_the_connection_stays() -> None:
    """A session without a lifetime never begins again."""
    talk = _Talk()
    talk.choose()
    talk.send()
    talk.clock.advance_ms(10_000)
    response, failure = talk.choose()
    assert (response.error_code, failure) == (ErrorCode.ILLEGAL_SASL_STATE, "")
    answer, failure = talk.send()
    assert (answer.error_code, failure) == (ErrorCode.ILLEGAL_SASL_STATE, "")
    assert talk.session.principal == ALICE


def test_the_lifetime_is_the_shorter_of_the_longest_session_and_the_credentials() -> None:
    """KIP-368; without a longest session there is none."""
    for max_reauth_ms, valid_ms, expected in ((0, 5_000, 0), (3_000, 5_000, 3_000), (9_000, 5_000, 5_000)):
        talk = _Talk(max_reauth_ms)
        talk.tokens.valid_ms = valid_ms
        talk.choose("TOKENS")
        assert talk.send(b"first")[0].session_lifetime_ms == 0
        assert talk.send(b"second")[0].session_lifetime_ms == expected
        assert not talk.session.has_expired
        talk.clock.advance_ms(5_000)
        assert talk.session.has_expired is (expected != 0)


def test_expired_credentials_are_wrong_credentials() -> None:
    """Even if the mechanism let them pass."""
    talk = _Talk()
    talk.tokens.valid_ms = 0
    talk.choose("TOKENS")
    assert talk.send(b"second")[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert talk.session.principal is None


def test_a_client_authenticates_again() -> None:
    """The principal stays meanwhile, and the lifetime begins anew; also when it has ended."""
    talk = _Talk(max_reauth_ms=3_000)
    talk.choose()
    assert talk.send()[0].session_lifetime_ms == 3_000
    talk.clock.advance_ms(3_500)
    assert talk.session.has_expired
    assert talk.choose()[0].error_code == 0
    assert talk.session.principal == ALICE
    assert not talk.session.has_expired
    assert talk.send()[0].session_lifetime_ms == 3_000
    assert not talk.session.has_expired


def test_a_client_may_not_authenticate_again_at_once() -> None:
    """A second must be between two beginnings."""
    talk = _Talk(max_reauth_ms=3_000)
    talk.choose()
    talk.send()
    talk.clock.advance_ms(999)
    assert talk.choose()[0].error_code == ErrorCode.ILLEGAL_SASL_STATE
    talk.clock.advance_ms(1)
    assert talk.choose()[0].error_code == 0


def test_neither_mechanism_nor_principal_may_change() -> None:
    """Both end the connection."""
    talk = _Talk(max_reauth_ms=3_000)
    talk.choose()
    talk.send()
    talk.clock.advance_ms(1_000)
    response, failure = talk.choose("TOKENS")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert failure
    talk.choose()
    answer, failure = talk.send(b"\0bob\0b")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert failure
    assert talk.session.principal == ALICE


def test_settings_are_kafkas() -> None:
    """Their defaults."""
    given = dataclasses.asdict(SaslSettings(mechanisms={}))
    assert given == {"mechanisms": {}, "max_request_bytes": 524_288, "failure_delay_ms": 100, "max_reauth_ms": 0}
