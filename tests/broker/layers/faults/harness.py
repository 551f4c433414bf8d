"""A broker as fault rules see it: routes, topics, and a purgatory on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from purgatorio.broker.layers.faults import FaultRegistry, FaultTarget, FaultyStore, LiveRule, Toxics, parse_rule
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.routing.request import Handler, RequestContext, Route, Session
from purgatorio.broker.routing.route_layers import RouteLayers
from purgatorio.protocol.api import APIS, encode_response
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import ActionQueue, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.routing.harness import handlers, routes_of

IDS = {b"orders".ljust(16): "orders"}


class FakeReply:
    """Keeps what a request was answered, as a client gets it: encoded once, so that what cannot be is found."""

    def __init__(self, api_key: int, version: int) -> None:
        self.answer: Any = None
        self.ended = "waiting"
        self._key = (api_key, version)

    def __call__(self, response: Any) -> None:
        assert self.ended == "waiting", "a request is answered once"
        encode_response(*self._key, 1, response)
        self.answer, self.ended = response, "answered"

    def nothing(self) -> None:
        self.ended = "unanswered"

    def close(self, reason: str) -> None:
        self.ended = f"closed: {reason}"


class FakeChannel:
    """A connection that counts how many hold its further requests back."""

    def __init__(self) -> None:
        self.mutes = 0

    def mute(self) -> None:
        self.mutes += 1

    def unmute(self) -> None:
        assert self.mutes
        self.mutes -= 1


class FakeBroker:
    """Broker 1, whose handlers answer without errors, and remember what they were asked.

    Attributes:
        worked: the requests for which a handler was called.
        channel: the connection of all requests.
        poisoned: the toxics that its connections were to pass, one after the other.
    """

    def __init__(self, answers: dict[int, Callable[[Any], Any]], store: FaultyStore | None = None) -> None:
        self.clock = ManualClock(1_000)
        self.faults = FaultRegistry(self.clock, seed=1)
        self.timer = Timer(self.clock.now_ms)
        self.purgatory: Purgatory[Any] = Purgatory("Fault", self.timer, actions=ActionQueue())
        self.worked: list[Any] = []
        self.channel = FakeChannel()
        self.poisoned: list[Toxics] = []
        self.sessions: dict[tuple[str, str], list[tuple[bytes, TopicPartition]]] = {}
        table = {key: Route(self._handler(answer), 0, 18, _failed(key)) for key, answer in answers.items()}
        self.own_handlers = {key: each.handler for key, each in table.items()}
        self._layers = RouteLayers(routes_of(table))
        self._target = FaultTarget(
            broker_id=1,
            layers=self._layers,
            topics=self,
            purgatories=SimpleNamespace(of=lambda kind: self.purgatory),
            toxics=self.poisoned.append,
            tier=None if store is None else store.obey,
        )
        self.attach()

    def attach(self) -> None:
        """Have the rules act on it."""
        self.faults.attach(self._target)

    def detach(self) -> None:
        """End it, as far as rules are concerned."""
        self.faults.detach(self._target)

    @property
    def handlers(self) -> dict[int, Handler]:
        """What a request of each API meets now."""
        return handlers(self._layers.routes)

    def _handler(self, answer: Callable[[Any], Any]) -> Callable[..., None]:
        def handle(ctx: RequestContext, request: Any, reply: Any) -> None:
            self.worked.append(request)
            reply(answer(request))

        return handle

    def of_share_session(self, group_id: str, member_id: str) -> list[tuple[bytes, TopicPartition]]:
        return self.sessions.get((group_id, member_id), [])

    def topic_name(self, topic_id: bytes) -> str | None:
        return IDS.get(topic_id)

    def has_partition(self, topic: str, partition: int) -> bool:
        return topic in ("orders", "other") and partition < 4

    def fault(self, **rule: Any) -> LiveRule:
        """Add a rule."""
        return self.faults.add(parse_rule(rule, functions=True))

    def ask(self, key: int, request: Any, *, version: int, client: str = "till") -> FakeReply:
        """Send a request to the broker; returns its reply."""
        reply = FakeReply(key, version)
        session = Session(connection_id="1", listener="PLAINTEXT", host="127.0.0.1", peer="127.0.0.1:1")
        session.channel = self.channel
        self.handlers[key](RequestContext(session, client, key, version, self.clock.now_ms()), request, reply)
        return reply

    def passes(self, ms: int) -> None:
        """Let time pass, and deadlines come."""
        self.clock.advance_ms(ms)
        self.timer.advance(self.clock.now_ms())


def _failed(key: int) -> Callable[[Any, ErrorCode], Any]:
    """The real `error_response` of an API."""
    from purgatorio.broker.api.routes import APIS as HANDLERS

    assert key in APIS
    return next(each.failed for each in HANDLERS if each.key == key)
