"""Requests to the share coordinators of other brokers: calls about one group share a request.

The first calls to a broker go at once, and those that come while it has several requests to answer share the next ones.
A share partition is in a request once, as an answer names it only so; and a broker that answers slowly is not asked
ever more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from purgatorio.broker.coordinator.ask_broker import AskBroker
from purgatorio.broker.share.persisting.calls import Call, CallKind, Place, outcome_of, request_of, results_of
from purgatorio.broker.share.state.outcome import Outcome
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode

MAX_REQUESTS: Final = 4
"""The most requests of one kind to one broker that wait for answers. They are answered in their order."""

MAX_WEIGHT: Final = 10_000
"""The most elements of a request, unless one call has more."""

Answered = Callable[[Call, Outcome], None]
"""Receives a call with its outcome; NETWORK_EXCEPTION if the broker gave none."""


class _Destination:
    """A broker, for one kind of calls.

    Attributes:
        queues: the calls that are to be sent, by group; none is empty.
        requests: those that it has not answered.
        is_sending: whether requests are being sent; one that fails at once begins no other within it.
    """

    __slots__ = ("is_sending", "queues", "requests")

    def __init__(self) -> None:
        self.queues: dict[str, deque[Call]] = {}
        self.requests = 0
        self.is_sending = False

    def take(self, kind: CallKind) -> tuple[str, dict[Place, Call]]:
        """Take the calls of the next request; the groups take turns."""
        group_id, queue = next(iter(self.queues.items()))
        taken: dict[Place, Call] = {}
        weight = 0
        while queue and len(taken) < kind.max_partitions:
            call = queue[0]
            place = Place(call.key.topic_id, call.key.partition)
            weight += call.weight
            if place in taken or (taken and weight > MAX_WEIGHT):
                break
            taken[place] = queue.popleft()
        del self.queues[group_id]
        if queue:
            self.queues[group_id] = queue
        return group_id, taken


class CoordinatorRequests:
    """Asks the share coordinators of other brokers."""

    def __init__(self, ask: AskBroker, answered: Answered) -> None:
        self._ask = ask
        self._answered = answered
        self._destinations: dict[tuple[int, ApiKey], _Destination] = {}

    def send(self, broker_id: int, call: Call) -> None:
        """Ask a broker, now or when it has answered others. The outcome may come before this returns."""
        destination = self._destinations.setdefault((broker_id, call.kind.api_key), _Destination())
        destination.queues.setdefault(call.key.group_id, deque()).append(call)
        self._send(broker_id, call.kind, destination)

    def _send(self, broker_id: int, kind: CallKind, destination: _Destination) -> None:
        if destination.is_sending:
            return
        destination.is_sending = True
        try:
            while destination.queues and destination.requests < MAX_REQUESTS:
                group_id, calls = destination.take(kind)
                destination.requests += 1
                done = partial(self._broker_answered, broker_id, kind, destination, calls)
                self._ask(broker_id, kind.api_key, kind.version, request_of(kind, group_id, calls.values()), done)
        finally:
            destination.is_sending = False

    def _broker_answered(
        self,
        broker_id: int,
        kind: CallKind,
        destination: _Destination,
        calls: Mapping[Place, Call],
        response: Any,
        error: Exception | None,
    ) -> None:
        destination.requests -= 1
        results = dict(results_of(response))
        why = "no answer" if error is None else str(error) or type(error).__name__
        for place, call in calls.items():
            result = results.get(place)
            missing = Outcome(ErrorCode.NETWORK_EXCEPTION, why)
            self._answered(call, missing if result is None else outcome_of(call, result))
        self._send(broker_id, kind, destination)
