"""The requests of one connection that were started, and in which order their answers leave. Knows no event loop.

An `Exchange` is a request with its place in the order of answers, and the `Reply` that its handler calls. Clients match
answers to requests by their order, so an answer waits for the answers of all earlier requests. The connection is the
shell around this: it adds each request that it starts, asks after each answer whether to send, and sends what
`ReplyQueue.take` gives it.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from purgatorio.broker.routing.request import Session
from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.broker.server.observer import ServerObserver
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


Departure = tuple[list[Buffer], int, int]
"""The bytes to send, in parts; their size; and the size of the requests that they answer."""


class ReplyQueue:
    """The requests of one connection that were started, and those of their answers that were not sent.

    Args:
        limits: bounds the requests in flight and the unsent answers.
        observer: notified of each request when its answer leaves.
        now_seconds: the clock's; the observer gets the duration of each request.

    Attributes:
        in_flight: started requests whose answers have not left, oldest first; the connection appends as it starts them.
        unsent_bytes: the size of their answers, as far as they have any.
        accepting: whether further requests may be started at all.
        mutes: how many hold further requests back; above zero, none is started.
        throttled: whether one of them is a quota, under which nothing is read either.
        writing_paused: whether the transport holds so many answers that the connection must wait for the client.
        in_turn: whether the connection is starting requests; it sends afterwards.
        turn_scheduled: whether the connection has asked the event loop for a turn; it sends then.
        ended: whether the connection is to close, now that the last answer was taken.
    """

    __slots__ = (
        "_ends_when_empty",
        "_max_in_flight",
        "_max_unsent_bytes",
        "_now_seconds",
        "_request_done",
        "accepting",
        "ended",
        "in_flight",
        "in_turn",
        "mutes",
        "throttled",
        "turn_scheduled",
        "unsent_bytes",
        "writing_paused",
    )

    def __init__(self, limits: ConnectionLimits, observer: ServerObserver, now_seconds: Callable[[], float]) -> None:
        self._max_in_flight = limits.max_in_flight_requests
        self._max_unsent_bytes = limits.write_high_water_bytes
        self._request_done = observer.request
        self._now_seconds = now_seconds
        self._ends_when_empty = False
        self.in_flight: deque[Exchange] = deque()
        self.unsent_bytes = 0
        self.accepting = True
        self.mutes = 0
        self.throttled = False
        self.writing_paused = False
        self.in_turn = False
        self.turn_scheduled = False
        self.ended = False

    def may_start(self) -> bool:
        """Whether another request may be started."""
        return (
            self.accepting
            and not self.mutes
            and not self.writing_paused
            and len(self.in_flight) < self._max_in_flight
            and self.unsent_bytes < self._max_unsent_bytes
        )

    def room_bytes(self, buffered_bytes: int) -> int:
        """Return the bytes of answers that fill the transport, with what it has buffered of earlier ones."""
        return max(1, self._max_unsent_bytes - buffered_bytes)

    def may_read_ahead(self, waiting: int) -> bool:
        """Whether to read on beyond this number of waiting requests while none may be started.

        A muted connection reads, up to the bound of those in flight, since only a connection that reads learns that its
        client has gone.
        """
        return (
            self.mutes > 0
            and not self.throttled
            and self.accepting
            and not self.writing_paused
            and len(self.in_flight) + waiting < self._max_in_flight
        )

    def answered(self, exchange: Exchange) -> bool:
        """Count the answer that `exchange` has got; return whether to `take` and send at once.

        The first answer in a turn of the event loop leaves at once, for its latency. Further ones leave together in
        the next turn, since the event that completes one parked operation often completes many (16 at a time: a third
        faster). The connection therefore schedules a turn when it sends at once.
        """
        self.unsent_bytes += exchange.answer_bytes
        return not self.in_turn and not self.turn_scheduled and exchange is self.in_flight[0]

    def take(self) -> Departure | None:
        """Remove the requests whose answers wait for no earlier one, and return the bytes to send; None without any.

        Nothing is taken beyond a refused request; `ended` is set there, or when the queue is empty after
        `end_when_empty`.
        """
        in_flight = self.in_flight
        if not in_flight or in_flight[0].parts is None:
            self.ended = self._ends_when_empty and not in_flight
            return None
        now_seconds, request_done = self._now_seconds(), self._request_done
        parts: list[Buffer] = []
        answer_bytes = request_bytes = 0
        ended = False
        while in_flight and not ended and (answer := in_flight[0].parts) is not None:
            exchange = in_flight.popleft()
            parts += answer
            answer_bytes += exchange.answer_bytes
            request_bytes += exchange.request_bytes
            request_done(exchange.api_key, exchange.api_version, now_seconds - exchange.received_seconds)
            ended = exchange.is_refused
        self.unsent_bytes -= answer_bytes
        self.ended = ended or (self._ends_when_empty and not in_flight)
        return parts, answer_bytes, request_bytes

    def end_when_empty(self) -> None:
        """Set `ended` as soon as no request is in flight."""
        self._ends_when_empty = True

    def clear(self) -> None:
        """Forget all requests: their answers can reach the client no more."""
        self.in_flight.clear()
        self.unsent_bytes = 0
