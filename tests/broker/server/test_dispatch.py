"""From frames to handlers: versions, undecodable requests, handlers that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purgatorio.broker.routing.request import Route, Routes, Session, api_versions_response
from purgatorio.broker.server.dispatch import Dispatcher, api_name
from purgatorio.broker.server.exchange import Exchange
from purgatorio.broker.server.limits import Refusal
from purgatorio.protocol.api import ApiKey, decode_response
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsResponse
from tests.broker.routing.harness import routes_of
from tests.compiled import replaces_functions
from tests.logs import capture_logs

RequestOf = Callable[..., bytes]


class _Owner:
    """The connection, as far as dispatching is concerned."""

    def __init__(self) -> None:
        self.session = Session(
            connection_id="PLAINTEXT-1", listener="PLAINTEXT", host="192.0.2.7", peer="192.0.2.7:5000"
        )
        self.closed = False
        self.refusals: list[tuple[Refusal, str]] = []
        self.answers: list[Exchange] = []

    def answered(self, exchange: Exchange) -> None:
        self.answers.append(exchange)

    def refused(self, exchange: Exchange, reason: Refusal, detail: str) -> None:
        self.refusals.append((reason, detail))

    def take_steps(self, steps: Iterator[None]) -> None:
        for _ in steps:
            pass

    @property
    def response(self) -> Any:
        """The only answer, decoded."""
        (exchange,) = self.answers
        assert exchange.parts is not None
        frame = b"".join(exchange.parts)[4:]
        return decode_response(exchange.api_key, exchange.api_version, frame)[1]


def _dispatch(routes: Routes, data: bytes) -> _Owner:
    owner = _Owner()
    Dispatcher(routes).dispatch(data[4:], Exchange(owner, len(data), 0.0), owner.session, 7)
    return owner


def test_a_handler_gets_the_session_of_the_request(routes: Routes, handler: Any, request_of: RequestOf) -> None:
    """The context carries the connection's session and what the header says."""
    owner = _dispatch(routes, request_of(1, ApiKey.API_VERSIONS, 2))
    (context,) = handler.contexts
    assert context.session is owner.session
    assert (context.client_id, context.api_key, context.api_version) == ("tester", ApiKey.API_VERSIONS, 2)
    assert context.received_ms == 7
    assert owner.session.client_id == "tester"


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    routes: Routes, handler: Any, request_of: RequestOf
) -> None:
    """With UNSUPPORTED_VERSION and the table, so that the client can choose another (KIP-511)."""
    data = bytearray(request_of(1, ApiKey.API_VERSIONS, 4))
    data[6:8] = (77).to_bytes(2)
    owner = _dispatch(routes, bytes(data))
    (exchange,) = owner.answers
    assert exchange.parts is not None
    frame = b"".join(exchange.parts)[4:]
    assert frame[:4] == (1).to_bytes(4)
    assert frame[4:6] == int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2)
    ranges = {key.api_key: (key.min_version, key.max_version) for key in owner.response.api_keys}
    assert ranges == {ApiKey.PRODUCE: (0, 11), ApiKey.API_VERSIONS: (0, 3)}
    assert handler.contexts == []


def test_the_table_is_that_of_the_routes(routes: Routes) -> None:
    """It cannot drift from the handlers."""
    response = api_versions_response(routes.versions)
    assert response.error_code == ErrorCode.NONE
    assert [key.api_key for key in response.api_keys] == sorted(routes.versions)


@pytest.mark.parametrize(
    ("api_key", "api_version", "reason", "detail"),
    [
        (ApiKey.METADATA, 4, Refusal.UNSUPPORTED_API, "API METADATA is not answered"),
        (1234, 0, Refusal.UNSUPPORTED_API, "API 1234 is not answered"),
        (-1, 0, Refusal.UNSUPPORTED_API, "API -1 is not answered"),
        (ApiKey.PRODUCE, 12, Refusal.UNSUPPORTED_VERSION, "PRODUCE version 12 is not answered, only 3 to 11"),
        (ApiKey.PRODUCE, 2, Refusal.UNSUPPORTED_VERSION, "PRODUCE version 2 is not answered, only 3 to 11"),
        (ApiKey.PRODUCE, -1, Refusal.UNSUPPORTED_VERSION, "PRODUCE version -1 is not answered, only 3 to 11"),
    ],
)
def test_what_is_not_answered_closes_with_the_reason(
    routes: Routes, request_of: RequestOf, api_key: int, api_version: int, reason: Refusal, detail: str
) -> None:
    """No response can be encoded in a version that is not known; advertised Produce 0 to 2 included (KAFKA-18659)."""
    data = bytearray(request_of(1))
    data[4:8] = api_key.to_bytes(2, signed=True) + api_version.to_bytes(2, signed=True)
    assert _dispatch(routes, bytes(data + b"\0")).refusals == [(reason, detail)]


@pytest.mark.parametrize("size", range(4, 20))
def test_a_request_that_ends_too_early_is_undecodable(routes: Routes, request_of: RequestOf, size: int) -> None:
    """In its header or in its body."""
    data = request_of(1, ApiKey.API_VERSIONS, 3)[:size]
    owner = _dispatch(routes, data)
    assert [reason for reason, _ in owner.refusals] == [Refusal.UNDECODABLE_REQUEST]
    assert owner.answers == []


def test_an_array_count_bomb_is_undecodable(routes: Routes, handler: Any) -> None:
    """Two billion topics in forty bytes."""
    body = (-1).to_bytes(2, signed=True) + (1).to_bytes(2) + (1000).to_bytes(4) + b"\x7f\xff\xff\xff"
    header = ApiKey.PRODUCE.to_bytes(2) + (3).to_bytes(2) + (1).to_bytes(4) + (-1).to_bytes(2, signed=True)
    owner = _dispatch(routes, b"\0\0\0\0" + header + body)
    assert [reason for reason, _ in owner.refusals] == [Refusal.UNDECODABLE_REQUEST]
    assert handler.contexts == []


def test_a_handler_that_fails_is_logged_and_answered(routes: Routes, handler: Any, request_of: RequestOf) -> None:
    """UNKNOWN_SERVER_ERROR for the client, the traceback for us."""

    def fail(reply: object) -> None:
        raise ZeroDivisionError("a bug")

    handler.decide = fail
    with capture_logs() as logs:
        owner = _dispatch(routes, request_of(1))
    assert owner.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [(entry["event"], entry["api"], entry["exc_info"]) for entry in logs] == [
        ("handler failed", "API_VERSIONS", True)
    ]


def test_a_handler_that_fails_after_its_answer_is_only_logged(
    routes: Routes, handler: Any, request_of: RequestOf
) -> None:
    """The client has its answer."""

    def answer_and_fail(reply: Any) -> None:
        reply(ApiVersionsResponse())
        raise ZeroDivisionError("a bug")

    handler.decide = answer_and_fail
    with capture_logs() as logs:
        owner = _dispatch(routes, request_of(1))
    assert owner.response.error_code == ErrorCode.NONE
    assert len(logs) == 1


@pytest.mark.parametrize("error_response", [lambda request, code: None, lambda request, code: 1 / 0])
def test_a_failure_that_cannot_be_answered_closes(
    handler: Any, request_of: RequestOf, error_response: Callable[..., Any]
) -> None:
    """The response has no place for an error, or building it fails as well."""

    def fail(reply: object) -> None:
        raise ZeroDivisionError("a bug")

    handler.decide = fail
    with capture_logs():
        owner = _dispatch(routes_of({ApiKey.API_VERSIONS: Route(handler, 0, 3, error_response)}), request_of(1))
    assert owner.refusals == [(Refusal.INTERNAL_ERROR, "the handler failed")]


@replaces_functions
def test_a_decoder_that_fails_closes(routes: Routes, request_of: RequestOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a codec costs the connection that met it, and no other."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("purgatorio.broker.server.dispatch.decode_request", fail)
    with capture_logs() as logs:
        owner = _dispatch(routes, request_of(1))
    assert owner.refusals == [(Refusal.INTERNAL_ERROR, "the decoder failed")]
    assert len(logs) == 1


def test_apis_are_named_as_people_know_them() -> None:
    """Or by their number."""
    assert api_name(18) == "API_VERSIONS"
    assert api_name(999) == "999"
