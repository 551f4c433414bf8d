"""A broker as quotas see it: routes whose handlers do as they are told, connections, and a clock moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from purgatorio.broker.api.routes import APIS
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.layers.quotas.client_quotas import BrokerQuotas, QuotaWindows
from purgatorio.broker.metadata.clients import QuotaEntity
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.replication_throttle import ReplicationThrottle
from purgatorio.broker.routing.request import NO_CHANNEL, Handler, Principal, RequestContext, Route, Session
from purgatorio.broker.routing.route_layers import RouteLayers
from purgatorio.protocol.api import encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.purgatory import ActionQueue, FinishedOperation, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.routing.harness import handlers, routes_of

MB = 1_000_000


class FakeChannel:
    """A connection; `throttled` tells whether it is muted."""

    def __init__(self) -> None:
        self.throttled = False
        self.events: list[str] = []

    def mute(self) -> None:
        raise AssertionError("quotas throttle")

    unmute = mute

    def throttle(self) -> None:
        assert not self.throttled
        self.throttled = True
        self.events.append("throttled")

    def unthrottle(self, then: Callable[[], None] | None = None) -> None:
        assert self.throttled
        self.throttled = False
        self.events.append("unthrottled")
        if then is not None:
            then()


class Client:
    """A connection of a client to the broker.

    Attributes:
        answers: what it got: responses, None for nothing, or why it was closed.
    """

    def __init__(self, broker: FakeBroker, client_id: str | None, user: str, number: int) -> None:
        self._broker = broker
        self.client_id = client_id
        self.channel = FakeChannel()
        self.answers: list[Any] = []
        self.session = Session(
            connection_id=f"c{number}", listener="PLAINTEXT", host="192.0.2.1", peer=f"192.0.2.1:{number}"
        )
        self.session.principal = Principal("User", user)
        self.session.channel = self.channel
        self.session.client_id = client_id

    def ask(self, key: int, request: Any = None, *, version: int, request_bytes: int = 0) -> Any:
        """Send a request; return its answer, None if there is none yet."""
        ctx = RequestContext(self.session, self.client_id, key, version, 0, request_bytes)
        count = len(self.answers)
        self._broker.handlers[key](ctx, request, ClientReply(self, key, version))
        return self.answers[-1] if len(self.answers) > count else None


class ClientReply:
    """Gives an answer to its client, encoded once."""

    def __init__(self, client: Client, key: int, version: int) -> None:
        self._client = client
        self._key, self._version = key, version

    def __call__(self, response: Any) -> None:
        encode_response(self._key, self._version, 1, response)
        self._client.answers.append(response)
        self._client.channel.events.append("answered")

    def nothing(self) -> None:
        self._client.answers.append(None)

    def close(self, reason: str) -> None:
        self._client.answers.append(reason)


class Stopwatch(ManualClock):
    """A clock whose stopwatch goes only while handlers work."""

    seconds = 0.0

    def now_seconds(self) -> float:
        return self.seconds


class FakeBroker:
    """A broker with quotas.

    Attributes:
        handle: gets each request's reply and message instead of a handler, by API key.
        handler_seconds: the time that a handler takes.
        withheld: the answers to fetches that clients did not get, with whether their requests were full.
        counts: the partitions of topics.
    """

    def __init__(self, *, knows_brokers: bool = False) -> None:
        self.clock = Stopwatch(1_000)
        self.timer = Timer(self.clock.now_ms)
        self.finished: list[FinishedOperation] = []
        self.purgatory: Purgatory[Any] = Purgatory(
            "Throttled", self.timer, actions=ActionQueue(), on_finished=self.finished.append
        )
        self.handle: dict[int, Callable[[Any, Any], None]] = {}
        self.handler_seconds = 0.0
        self.withheld: list[tuple[Any, bool]] = []
        self.counts: dict[str, int] = {}
        self.image = ClusterImage(0, "test")
        table = {
            int(api.key): Route(self._handler(api.key), api.min_version, api.max_version, api.failed) for api in APIS
        }
        self.own_handlers = {key: each.handler for key, each in table.items()}
        self._layers = RouteLayers(routes_of(table))
        self.quotas = BrokerQuotas(
            self._layers,
            SimpleNamespace(of=lambda kind: self.purgatory),
            clock=self.clock,
            windows=QuotaWindows(),
            topics=self,
            withheld=lambda response, was_full: self.withheld.append((response, was_full)),
            knows_brokers=knows_brokers,
        )
        self.replicas: Any = SimpleNamespace(
            leader_throttle=ReplicationThrottle(1, self.clock),
            follower_throttle=ReplicationThrottle(1, self.clock),
        )
        self._clients = 0

    @property
    def handlers(self) -> dict[int, Handler]:
        """What a request of each API meets now."""
        return handlers(self._layers.routes)

    def _handler(self, key: int) -> Callable[..., None]:
        def handler(ctx: RequestContext, request: Any, reply: Any) -> None:
            self.clock.seconds += self.handler_seconds
            self.handle[key](reply, request)

        return handler

    def handler_takes(self, seconds: float) -> None:
        """Let time pass, as a handler takes it."""
        self.clock.seconds += seconds

    def limit(self, *, user: str | None = None, client_id: str | None = None, **values: float) -> None:
        """Set quotas of an entity, and no others of it; without values it has none."""
        entity = QuotaEntity(user, client_id)
        others = {each: quotas for each, quotas in self.image.client_quotas.items() if each != entity}
        self.image = self.image.with_client_quotas({**others, entity: values} if values else others)
        self.quotas.image_changed(self.image)

    def client(self, client_id: str | None = "billing", user: str = "alice") -> Client:
        """Connect a client."""
        self._clients += 1
        return Client(self, client_id, user, self._clients)

    def passes(self, ms: int) -> None:
        """Let time pass, and deadlines come."""
        self.clock.advance_ms(ms)
        self.timer.advance(self.clock.now_ms())

    @property
    def muted(self) -> list[str]:
        """The sentences of the connections that are muted."""
        return [in_words(operation.causes) for operation in self.purgatory.operations(limit=100)]

    def count(self, topic: str) -> int | None:
        return self.counts.get(topic)

    def name(self, topic_id: bytes) -> str | None:
        return topic_id.rstrip(b"\0").decode()

    def default_count(self) -> int:
        return 3


def lost(client: Client) -> None:
    """Lose a client's connection."""
    client.session.lost()
    assert client.session.channel is NO_CHANNEL


def produce(client: Client, size_bytes: int) -> int:
    """Produce; return the throttle time that the client was told."""
    throttle_ms: int = client.ask(ApiKey.PRODUCE, version=9, request_bytes=size_bytes).throttle_time_ms
    return throttle_ms
