"""Connections whose clients must authenticate: what passes before, what a failure costs, and when sessions end."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.routing.request import ANONYMOUS
from purgatorio.broker.security.plain import Plain
from purgatorio.broker.security.sasl import SaslSettings
from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.protocol.api import ApiKey, decode_response, encode_request
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.server.conftest import Bench
from tests.logs import capture_logs

REQUESTS = {
    ApiKey.API_VERSIONS: ApiVersionsRequest,
    ApiKey.HEARTBEAT: HeartbeatRequest,
    ApiKey.METADATA: MetadataRequest,
}
RESPONSES = {ApiKey.API_VERSIONS: ApiVersionsResponse, ApiKey.HEARTBEAT: HeartbeatResponse}
RIGHT, WRONG = b"\0alice\0right", b"\0alice\0wrong"


def _answer(reply: Any) -> None:
    reply(RESPONSES[reply.api_key]())


class _Client:
    """A client of a connection without a socket."""

    def __init__(self, max_reauth_ms: int = 0, **limits: int) -> None:
        settings = SaslSettings(mechanisms={"PLAIN": Plain({"alice": "right"})}, max_reauth_ms=max_reauth_ms)
        self.bench = Bench(ConnectionLimits(**limits), settings)
        self.bench.handler.decide = _answer
        self.connection, self.transport = self.bench.connect()
        self._numbers = iter(range(1_000))

    def bytes_of(self, key: ApiKey, version: int, request: Any) -> bytes:
        return b"".join(encode_request(key, version, next(self._numbers), "tester", request))

    def send(self, key: ApiKey, version: int = 0) -> None:
        self.receive(self.bytes_of(key, version, REQUESTS[key]()))

    def choose(self, version: int = 1) -> None:
        request = SaslHandshakeRequest(mechanism="PLAIN")
        self.receive(self.bytes_of(ApiKey.SASL_HANDSHAKE, version, request))

    def token(self, token: bytes, version: int = 1) -> None:
        request = SaslAuthenticateRequest(auth_bytes=token)
        self.receive(self.bytes_of(ApiKey.SASL_AUTHENTICATE, version, request))

    def log_in(self) -> None:
        self.choose()
        self.token(RIGHT)
        self.transport.taken.clear()

    def receive(self, data: bytes) -> None:
        self.connection.data_received(data)
        self.bench.run()

    def last(self, key: ApiKey, version: int) -> Any:
        """The last answer, decoded; all before it are forgotten."""
        data = bytes(self.transport.taken)
        self.transport.taken.clear()
        while len(data) > 4 + (size := int.from_bytes(data[:4])):
            data = data[4 + size :]
        return decode_response(key, version, data[4:])[1]

    @property
    def handled(self) -> int:
        """The requests that came to a handler."""
        return len(self.bench.handler.contexts)


def test_a_client_authenticates_and_goes_on() -> None:
    """After ApiVersions; handlers see the principal, and the gate is gone."""
    client = _Client()
    client.send(ApiKey.API_VERSIONS)
    client.choose()
    assert client.last(ApiKey.SASL_HANDSHAKE, 1).mechanisms == ["PLAIN"]
    assert client.connection.session.principal is ANONYMOUS
    client.token(RIGHT)
    assert client.last(ApiKey.SASL_AUTHENTICATE, 1).error_code == 0
    client.send(ApiKey.HEARTBEAT)
    assert str(client.bench.handler.contexts[-1].session.principal) == "User:alice"
    assert client.connection.snapshot(0).principal == "User:alice"
    assert client.handled == 2


def test_all_in_one_segment() -> None:
    """A client that does not wait for answers: each request is judged after the ones before it."""
    client = _Client()
    client.receive(
        client.bytes_of(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        + client.bytes_of(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=RIGHT))
        + client.bytes_of(ApiKey.HEARTBEAT, 1, HeartbeatRequest())
    )
    assert client.transport.correlation_ids() == [0, 1, 2]
    assert client.handled == 1


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.HEARTBEAT])
def test_no_other_request_passes_before(key: ApiKey) -> None:
    """It closes the connection without an answer."""
    client = _Client()
    with capture_logs() as logs:
        client.send(key)
    assert client.handled == 0
    assert client.transport.closing
    assert not client.transport.taken
    assert client.bench.probe.refusals == [Refusal.NOT_AUTHENTICATED]
    assert logs[0]["detail"] == f"{key.name} before authentication"


def test_api_versions_may_be_asked_again_but_not_for_ever() -> None:
    """Four times, for a client that falls back."""
    client = _Client()
    for _ in range(4):
        client.send(ApiKey.API_VERSIONS)
    assert client.handled == 4
    with capture_logs():
        client.send(ApiKey.API_VERSIONS)
    assert client.handled == 4
    assert client.transport.closing


def test_a_token_without_a_handshake_closes() -> None:
    """Without an answer, and only after the delay."""
    client = _Client()
    client.token(RIGHT)
    assert not client.transport.closing
    with capture_logs():
        client.bench.clock.advance_ms(100)
    assert client.transport.closing
    assert not client.transport.taken


def test_another_request_in_place_of_a_token() -> None:
    """It gets its own answer with 34, if it has a place for one, and then the connection closes."""
    client = _Client()
    client.choose()
    client.transport.taken.clear()
    client.send(ApiKey.HEARTBEAT)
    with capture_logs():
        client.bench.clock.advance_ms(100)
    assert client.last(ApiKey.HEARTBEAT, 0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.transport.closing
    assert client.handled == 0


def test_a_long_request_in_place_of_a_token_closes_unread() -> None:
    """Thousands of names would be read, and answered, for a client that has not authenticated."""
    client = _Client()
    client.choose()
    client.transport.taken.clear()
    names = [MetadataRequestTopic(name=f"topic-{number}") for number in range(200)]
    with capture_logs() as logs:
        client.receive(client.bytes_of(ApiKey.METADATA, 1, MetadataRequest(topics=names)))
    assert client.transport.closing
    assert not client.transport.taken
    assert client.handled == 0
    assert logs[0]["detail"] == "METADATA before authentication"


def test_the_answer_to_a_failure_is_late_and_the_last() -> None:
    """Nothing is read meanwhile, and what was sent behind it is dropped (KIP-306)."""
    client = _Client()
    client.choose()
    client.transport.taken.clear()
    wrong = client.bytes_of(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=WRONG))
    right = client.bytes_of(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=RIGHT))
    client.receive(wrong + right)
    client.receive(right)
    client.bench.clock.advance_ms(99)
    assert not client.transport.taken
    assert not client.transport.reading
    assert not client.transport.closing
    with capture_logs() as logs:
        client.bench.clock.advance_ms(1)
    assert client.last(ApiKey.SASL_AUTHENTICATE, 1).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.transport.closing
    assert logs[0]["detail"] == "PLAIN: wrong password of user 'alice'"
    assert client.connection.session.principal is ANONYMOUS


def test_a_client_that_leaves_after_a_failure_leaves_nothing() -> None:
    """No alarm is left for it."""
    client = _Client()
    client.choose()
    client.token(WRONG)
    client.connection.connection_lost(None)
    assert client.bench.clock.next_alarm_ms is None
    assert client.bench.memory.used_bytes == 0


def test_raw_tokens_after_the_oldest_handshake() -> None:
    """Size and bytes, without headers, both ways."""
    client = _Client()
    client.choose(version=0)
    client.transport.taken.clear()
    client.receive(len(RIGHT).to_bytes(4) + RIGHT)
    assert bytes(client.transport.taken) == (0).to_bytes(4)
    client.send(ApiKey.HEARTBEAT)
    assert client.handled == 1


def test_a_wrong_raw_token_closes_without_an_answer() -> None:
    """There is no place for an error code."""
    client = _Client()
    client.choose(version=0)
    client.transport.taken.clear()
    client.receive(len(WRONG).to_bytes(4) + WRONG)
    with capture_logs():
        client.bench.clock.advance_ms(100)
    assert client.transport.closing
    assert not client.transport.taken


def test_requests_are_small_until_the_client_has_authenticated() -> None:
    """Not socket.request.max.bytes: more than 512 KiB of a client without a name would be many (CVE-2022-34917)."""
    client = _Client()
    client.choose()
    with capture_logs():
        client.receive((524_289).to_bytes(4))
    assert client.bench.probe.refusals == [Refusal.FRAME_TOO_LARGE]
    client = _Client()
    client.receive((524_288).to_bytes(4))
    assert client.bench.probe.refusals == []
    client = _Client()
    client.log_in()
    client.receive((524_289).to_bytes(4))
    assert client.bench.probe.refusals == []


def test_many_tagged_fields_in_a_header_cost_nothing() -> None:
    """CVE-2026-111115: as many as fit before authentication are refused by their number."""
    client = _Client()
    count = 260_000
    fields = bytes((count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14)) + bytes(2 * count)
    header = ApiKey.SASL_AUTHENTICATE.to_bytes(2) + (2).to_bytes(2) + bytes(4) + (-1).to_bytes(2, signed=True)
    frame = header + fields
    with capture_logs():
        client.receive(len(frame).to_bytes(4) + frame)
    assert client.bench.probe.refusals == [Refusal.UNDECODABLE_REQUEST]
    assert client.transport.closing


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x11", b"\0\x24\0\x63" + bytes(8), bytes.fromhex("60819f06092a86")])
def test_malformed_requests_close(frame: bytes) -> None:
    """Too short, of an unknown version, or a raw token of GSSAPI (KIP-896)."""
    client = _Client()
    with capture_logs():
        client.receive(len(frame).to_bytes(4) + frame)
    assert client.transport.closing
    assert client.handled == 0


def test_half_a_login_has_a_deadline() -> None:
    """Requests do not move it: the connection must have authenticated by then."""
    client = _Client(handshake_ms=5_000)
    client.bench.clock.advance_ms(4_000)
    client.choose()
    client.connection.enforce_deadlines(6_000)
    assert not client.transport.closing
    with capture_logs() as logs:
        client.connection.enforce_deadlines(6_001)
    assert client.transport.aborted
    assert logs[0]["detail"] == "not authenticated within 5000 ms after connecting"
    client = _Client(handshake_ms=5_000)
    client.log_in()
    client.connection.enforce_deadlines(6_001)
    assert not client.transport.closing


def test_a_session_ends_at_the_next_request() -> None:
    """Not before; the request gets no answer (KIP-368)."""
    client = _Client(max_reauth_ms=3_000)
    client.log_in()
    client.send(ApiKey.HEARTBEAT)
    client.bench.clock.advance_ms(3_000)
    client.connection.enforce_deadlines(4_000)
    assert not client.transport.closing
    client.transport.taken.clear()
    with capture_logs() as logs:
        client.send(ApiKey.HEARTBEAT)
    assert client.transport.closing
    assert not client.transport.taken
    assert client.handled == 1
    assert logs[0]["reason"] == Refusal.SESSION_EXPIRED


def test_a_client_authenticates_again_with_requests_in_flight() -> None:
    """They are answered first, in their order; the session goes on."""
    client = _Client(max_reauth_ms=3_000)
    client.log_in()
    client.bench.clock.advance_ms(2_000)
    client.bench.handler.decide = client.bench.handler.parked.append
    client.send(ApiKey.HEARTBEAT)
    client.choose()
    client.token(RIGHT)
    assert not client.transport.taken
    _answer(client.bench.handler.parked[0])
    client.bench.run()
    assert client.transport.correlation_ids() == [2, 3, 4]
    assert client.last(ApiKey.SASL_AUTHENTICATE, 1).session_lifetime_ms == 3_000
    client.bench.clock.advance_ms(2_000)
    client.send(ApiKey.HEARTBEAT)
    assert client.handled == 2


def test_authenticating_again_begins_in_time_and_may_end_late() -> None:
    """After its beginning nothing but tokens may come."""
    client = _Client(max_reauth_ms=3_000)
    client.log_in()
    client.bench.clock.advance_ms(2_999)
    client.choose()
    client.bench.clock.advance_ms(10)
    client.token(RIGHT)
    assert client.last(ApiKey.SASL_AUTHENTICATE, 1).error_code == 0
    client.bench.clock.advance_ms(1_000)
    client.choose()
    client.send(ApiKey.HEARTBEAT)
    with capture_logs():
        client.bench.clock.advance_ms(100)
    assert client.last(ApiKey.HEARTBEAT, 0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.transport.closing
