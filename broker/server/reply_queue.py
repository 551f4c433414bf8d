"""The answers of one connection: in which order they leave, when, and how many may wait. Knows no event loop.

Clients match answers to requests by their order, so an answer waits for the answers of all earlier requests. The
connection is the shell around this: it adds each request that it starts, asks after each answer whether to send, and
sends what `ReplyQueue.take` gives it.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from purgatorio.broker.server.exchange import Exchange
from purgatorio.broker.server.limits import ConnectionLimits
from purgatorio.broker.server.observer import ServerObserver
from purgatorio.protocol.primitives import Buffer

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
