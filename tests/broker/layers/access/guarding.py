"""A broker as the access layer sees it: an image, ACLs, and handlers that answer without errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from purgatorio.broker.api.routes import APIS as HANDLERS
from purgatorio.broker.layers.access.access import Access, Audit
from purgatorio.broker.layers.access.authorizer import Authorizer
from purgatorio.broker.layers.access.guards.whole import before
from purgatorio.broker.metadata.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.routing.request import Principal, RequestContext, Route, Session
from purgatorio.broker.routing.route_layers import Layer, RouteLayers
from purgatorio.protocol.api import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages import fetch
from purgatorio.purgatory.clock import ManualClock
from tests.broker.routing.harness import route, routes_of

TOPICS = ("orders", "secret")
REGISTERED = {int(each.key): each for each in HANDLERS}


def id_of(topic: str) -> bytes:
    """The id of a topic of the image."""
    return topic.encode()[:16].ljust(16, b".")


def allow(
    operation: AclOperation,
    kind: ResourceType,
    name: str = CLUSTER_NAME,
    *,
    permission: PermissionType = PermissionType.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> AclBinding:
    """An ACL of alice."""
    return AclBinding(kind, name, pattern, "User:alice", "*", operation, permission)


class Reply:
    """Keeps what a client gets: the response is encoded and decoded once."""

    def __init__(self, key: int, version: int) -> None:
        self.ended = "waiting"
        self.answer: Any = None
        self._key, self._version = key, version

    def __call__(self, response: Any) -> None:
        assert self.ended == "waiting", "a request is answered once"
        encoded = b"".join(encode_response(self._key, self._version, 1, response))[4:]
        self.answer, self.ended = decode_response(self._key, self._version, encoded)[1], "answered"

    def nothing(self) -> None:
        self.ended = "unanswered"

    def close(self, reason: str) -> None:
        self.ended = "closed"


class Acls:
    """A store whose image has the ACLs of a broker, which a test replaces."""

    def __init__(self, broker: GuardedBroker) -> None:
        self._broker = broker

    @property
    def image(self) -> Any:
        return SimpleNamespace(acls=self._broker.acls)


class GuardedBroker:
    """All APIs of a broker behind the access layer.

    Attributes:
        acls: those of the image; a test replaces them.
        worked: the requests that reached a handler.
        answers: what the handler of an API answers; without one the API's response without errors.
        sessions: fetch sessions by id.
        share_sessions: share sessions by group and member.
    """

    def __init__(self, acls: Iterable[AclBinding] = (), *, auto_create: bool = True) -> None:
        self.acls = dict.fromkeys(acls)
        self.worked: list[Any] = []
        self.answers: dict[int, Callable[[Any], Any]] = {}
        self.sessions: dict[int, Any] = {}
        self.share_sessions: dict[tuple[str, str], Any] = {}
        self.image = ClusterImage(1, "test", topics={name: Topic(name, id_of(name), ()) for name in TOPICS})
        self.clock = ManualClock()
        self.audit = Audit(1, self.clock)
        self.authorizer = Authorizer(Acls(self), super_users=["User:admin"])
        self.access = Access(
            self.authorizer,
            self,
            self.audit,
            sessions=SimpleNamespace(find=self.sessions.get),
            share_sessions=SimpleNamespace(find=lambda *member: self.share_sessions.get(member)),
            auto_create=auto_create,
        )
        table = {
            key: Route(self._handler(key), api.min_version, api.max_version, api.failed)
            for key, api in REGISTERED.items()
        }
        self._layers = RouteLayers(routes_of(table))
        self._layers.put(Layer.ACCESS, lambda key, own: before(self.access, REGISTERED[key].needs, own))

    def _handler(self, key: int) -> Callable[..., None]:
        def handle(ctx: RequestContext, request: Any, reply: Any) -> None:
            self.worked.append(request)
            answer = self.answers.get(key)
            response = answer(request) if answer else REGISTERED[key].failed(request, ErrorCode.NONE)
            reply.nothing() if response is None else reply(response)

        return handle

    def ask(self, key: int, version: int, request: Any, *, principal: str = "alice") -> Reply:
        """Send a request through codec and layer; returns its reply."""
        frame = b"".join(encode_request(key, version, 7, "till", request))[4:]
        header, position = decode_request_header(frame)
        session = Session(
            connection_id="1",
            listener="L",
            host="127.0.0.1",
            peer="127.0.0.1:5",
            principal=Principal("User", principal),
        )
        reply = Reply(key, version)
        ctx = RequestContext(session, "till", key, version, 0)
        route(self._layers.routes, key).handler(ctx, decode_request(header, frame, position), reply)
        return reply


def errors(message: Any) -> Iterator[int]:
    """Yield all error codes of a response."""
    for each in dataclasses.fields(message):
        value = getattr(message, each.name)
        if each.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for inner in value:
                if dataclasses.is_dataclass(inner):
                    yield from errors(inner)


def fetches(*topics: str, session_id: int = 0, epoch: int = 0, ids: tuple[bytes, ...] = ()) -> fetch.FetchRequest:
    """Return a fetch of the first partitions of topics, by their names and by ids that no topic has."""
    return fetch.FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        max_wait_ms=500,
        topics=[
            fetch.FetchTopic(topic_id=topic_id, partitions=[fetch.FetchPartition(partition=0)])
            for topic_id in (*map(id_of, topics), *ids)
        ],
    )
