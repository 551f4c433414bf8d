"""A request that was started: its place in the order of answers, and the `Reply` that its handler calls."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from purgatorio.broker.routing.request import Session
from purgatorio.broker.server.limits import Refusal
from purgatorio.logger import get_logger
from purgatorio.protocol.api import ApiKey, encode_response, encode_response_in_steps
from purgatorio.protocol.primitives import Buffer

_log = get_logger(__name__)

_LAST_AT_ONCE: Final = int(ApiKey.FETCH)
"""Answers of Produce and Fetch are encoded in one step: they are as long as requests allow, and have to be fast."""


class AnsweringConnection(Protocol):
    """The connection that a request came by, as the request needs it; tests have one of their own."""

    session: Session
    closed: bool

    def answered(self, exchange: Exchange) -> None:
        """Send the answer that `exchange` has now, after all earlier ones."""
        ...

    def refused(self, exchange: Exchange, reason: Refusal, detail: str) -> None:
        """Close in place of an answer, after the answers of all earlier requests."""
        ...

    def take_steps(self, steps: Iterator[int]) -> None:
        """Take the first of these steps now and the others in later turns, and start no request until all are taken."""
        ...


class Exchange:
    """A request and, once there is one, its encoded answer.

    Attributes:
        request_bytes: the size of the request on the wire, including the four bytes of its length.
        received_seconds: the clock's monotonic time when the last byte of the request was received.
        parts: the encoded answer; empty if no bytes are sent, None until there is one.
        answer_bytes: size of `parts`.
        is_answered: whether there is an answer, though a long one may not be encoded yet.
        is_refused: whether the connection closes in place of an answer.
    """

    __slots__ = (
        "_connection",
        "answer_bytes",
        "api_key",
        "api_version",
        "correlation_id",
        "is_answered",
        "is_refused",
        "parts",
        "received_seconds",
        "request_bytes",
    )

    def __init__(self, connection: AnsweringConnection, request_bytes: int, received_seconds: float) -> None:
        self._connection = connection
        self.request_bytes = request_bytes
        self.received_seconds = received_seconds
        self.api_key = -1
        self.api_version = -1
        self.correlation_id = 0
        self.parts: Sequence[Buffer] | None = None
        self.answer_bytes = 0
        self.is_answered = False
        self.is_refused = False

    def __call__(self, response: Any) -> None:
        """Answer with `response`; see `Reply`."""
        if self.is_answered or self._connection.closed:  # `_is_over` alone would be one call more per request
            self._is_over()
            return
        self.is_answered = True
        if self.api_key > _LAST_AT_ONCE:
            self._connection.take_steps(self._encode(response))
            return
        try:
            parts = encode_response(self.api_key, self.api_version, self.correlation_id, response)
        except Exception as error:  # a bug of the handler, which must not reach the code that completed its operation
            self._not_encoded(error)
            return
        self.answer_bytes = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        self.parts = parts
        self._connection.answered(self)

    def _encode(self, response: Any) -> Iterator[int]:
        try:
            parts = yield from encode_response_in_steps(self.api_key, self.api_version, self.correlation_id, response)
        except Exception as error:  # as above
            failure = error
        else:
            self.answer_bytes = sum(map(len, parts))
            self.parts = parts
            self._connection.answered(self)
            return
        self._not_encoded(failure)

    def _not_encoded(self, error: Exception) -> None:
        _log.error("answer cannot be encoded", api_key=self.api_key, api_version=self.api_version, exc_info=error)
        self._refuse(Refusal.INTERNAL_ERROR, f"the answer cannot be encoded: {error}")

    def nothing(self) -> None:
        """Send nothing, and let later answers pass."""
        if not self._is_over():
            self.is_answered = True
            self.parts = ()
            self._connection.answered(self)

    def close(self, reason: str) -> None:
        """Close the connection when the answers of all earlier requests were sent."""
        self.refuse(Refusal.CLOSED_BY_HANDLER, reason)

    def raw(self, data: bytes) -> None:
        """Answer with bytes that have no header."""
        if not self._is_over():
            self.is_answered = True
            self.parts = (data,)
            self.answer_bytes = len(data)
            self._connection.answered(self)

    def refuse(self, reason: Refusal, detail: str, response: Any = None) -> None:
        """Close the connection as `close` does, for a reason of the server's own; after `response`, if it is given."""
        if not self._is_over():
            self.is_answered = True
            self._refuse(reason, detail, response)

    def _refuse(self, reason: Refusal, detail: str, response: Any = None) -> None:
        parts: Sequence[Buffer] = ()
        if response is not None:
            parts = encode_response(self.api_key, self.api_version, self.correlation_id, response)
            self.answer_bytes = sum(map(len, parts))
        self.parts = parts
        self.is_refused = True
        self._connection.refused(self, reason, detail)

    def _is_over(self) -> bool:
        """Whether an answer comes too late. A second one is a bug, which is logged and has no effect on the client."""
        connection = self._connection
        if connection.closed:
            return True
        if self.is_answered:
            _log.error("request answered twice", peer=connection.session.peer, api_key=self.api_key, stack_info=True)
            return True
        return False
