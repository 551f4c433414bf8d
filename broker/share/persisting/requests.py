"""Requests to the share coordinators of other brokers: calls about one group share a request.

The first calls to a broker go at once, and those that come while it has several requests to answer share the next ones.
A share partition is in a request once, as an answer names it only so; writes about it that follow each other are one
entry. So a broker that answers slowly is not asked ever more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.coordinator.ask_broker import AskBroker
from purgatorio.broker.share.persisting.calls import (
    Call,
    CallKind,
    Place,
    is_joined_by,
    outcome_of,
    request_of,
    results_of,
)
from purgatorio.broker.share.state.outcome import Outcome
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode

MAX_REQUESTS: Final = 4
"""The most requests of one kind to one broker that wait for answers. They are answered in their order."""

MAX_WEIGHT: Final = 10_000
"""The most elements of a request, unless one call has more."""

MAX_JOINED: Final = 1_000
"""The most elements of writes that are joined; see `purgatorio.broker.share.state.batches.MAX_OVERLAPPING`."""

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

    def take(self, kind: CallKind) -> tuple[str, dict[Place, list[Call]]]:
        """Take the calls of the next request, by share partition; the groups take turns."""
        group_id, queue = next(iter(self.queues.items()))
        taken: dict[Place, list[Call]] = {}
        weight = 0
        while queue:
            call = queue[0]
            weight += call.weight
            place = Place(call.key.topic_id, call.key.partition)
            others = taken.get(place)
            if others is None:
                if taken and (weight > MAX_WEIGHT or len(taken) >= kind.max_partitions):
                    break
                taken[place] = [queue.popleft()]
            elif weight <= MAX_JOINED and is_joined_by(others[-1], call):
                others.append(queue.popleft())
            else:
                break
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
                self._ask(broker_id, kind.api_key, kind.version, request_of(kind, group_id, calls), done)
        finally:
            destination.is_sending = False

    def _broker_answered(
        self,
        broker_id: int,
        kind: CallKind,
        destination: _Destination,
        calls: Mapping[Place, Sequence[Call]],
        response: Any,
        error: Exception | None,
    ) -> None:
        destination.requests -= 1
        results = dict(results_of(response))
        why = "no answer" if error is None else str(error) or type(error).__name__
        missing = Outcome(ErrorCode.NETWORK_EXCEPTION, why)
        for place, joined in calls.items():
            result = results.get(place)
            for call in joined:
                self._answered(call, missing if result is None else outcome_of(call, result))
        self._send(broker_id, kind, destination)
