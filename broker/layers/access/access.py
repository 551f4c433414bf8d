"""The common part of all APIs' access checks: the broker's knowledge, and the refusal of parts of requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from purgatorio.broker.layers.access.authorizer import Authorizer, Permissions
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.routing.replies import AlteredReply
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.logger import LineBudget, cut, get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory.clock import Clock

_log = get_logger(__name__)


LAST_REFUSED: Final = 20
"""How many refusals of a broker are kept as they were."""


class Refused(NamedTuple):
    """A request that was refused for lack of a permission; names are cut.

    Attributes:
        at_ms: when, on the broker's clock.
        client: its client id.
        name: the resource's.
    """

    at_ms: int
    api: str
    client: str
    principal: str
    operation: str
    resource: str
    name: str


class Audit:
    """The refusals of one broker.

    Args:
        broker_id: the broker.
        clock: the broker's.

    Attributes:
        denied: how often an operation on a resource of a type was refused, by API key, operation and type.
        last: the last refusals, oldest first.
    """

    def __init__(self, broker_id: int, clock: Clock) -> None:
        self.denied: dict[tuple[int, AclOperation, ResourceType], int] = {}
        self.last: deque[Refused] = deque(maxlen=LAST_REFUSED)
        self._broker_id = broker_id
        self._clock = clock
        self._budgets: dict[int, LineBudget] = {}

    def refused(self, ctx: RequestContext, operation: AclOperation, kind: ResourceType, name: str, more: int) -> None:
        """Note that a request may not do an operation on a resource, nor on `more` others of the type."""
        key = (ctx.api_key, operation, kind)
        self.denied[key] = self.denied.get(key, 0) + 1 + more
        session, api, now_ms = ctx.session, ApiKey(ctx.api_key).name, self._clock.now_ms()
        principal, name, client = cut(str(session.principal)), cut(name), cut(ctx.client_id or "")
        self.last.append(Refused(now_ms, api, client, principal, operation.name, kind.name, name))
        _log.warn_within(
            self._budgets.setdefault(ctx.api_key, LineBudget()),
            now_ms,
            "access denied",
            broker=self._broker_id,
            principal=principal,
            host=session.host,
            operation=operation.name,
            resource=f"{kind.name}:{name}",
            api=api,
            client_id=None if ctx.client_id is None else client,
            listener=session.listener,
            **({"resources_more": more} if more else {}),
        )


CODES: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a refused operation on a resource of each type."""
NO_ID: Final = bytes(16)


class ReadSession(Protocol):
    """A fetch session (KIP-227), as the guard sees it that checks which topics its client may read."""

    readable_by: object

    @property
    def fetches(self) -> Sequence[Any]:
        """The partitions, each with its `tp` and `topic_id`."""
        ...


class FetchSessions(Protocol):
    """The fetch sessions of a broker."""

    def find(self, session_id: int) -> Any:
        """Return the session of an id, or None."""
        ...


class ShareSessionLookup(Protocol):
    """The share sessions of a broker."""

    def find(self, group_id: str, member_id: str) -> Any:
        """Return the session of a group's member, or None."""
        ...


class Access:
    """The services that the access checks of one broker use.

    Args:
        authorizer: knows the ACLs.
        store: has the broker's image.
        audit: counts and logs refusals.
        sessions: the fetch sessions.
        share_sessions: the share sessions.
        auto_create: whether a Metadata request may create topics.
    """

    __slots__ = ("_store", "audit", "authorizer", "auto_create", "sessions", "share_sessions")

    def __init__(
        self,
        authorizer: Authorizer,
        store: MetadataStore,
        audit: Audit,
        *,
        sessions: FetchSessions,
        share_sessions: ShareSessionLookup,
        auto_create: bool,
    ) -> None:
        self.authorizer = authorizer
        self._store = store
        self.audit = audit
        self.sessions = sessions
        self.share_sessions = share_sessions
        self.auto_create = auto_create

    @property
    def image(self) -> ClusterImage:
        """The broker's image."""
        return self._store.image

    def of(self, ctx: RequestContext) -> Permissions:
        """Return what the client of a request may do."""
        return self.authorizer.of(ctx.session)

    def may(self, ctx: RequestContext, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Return whether a request may do an operation that it requires; a refusal is noted."""
        if self.of(ctx).allows(operation, kind, name):
            return True
        self.audit.refused(ctx, operation, kind, name, 0)
        return False

    def may_cluster(self, ctx: RequestContext, operation: AclOperation) -> bool:
        """Return whether a request may do an operation on the cluster; a refusal is noted."""
        return self.may(ctx, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic; None if the broker does not know its id."""
        topic = self.image.topic_by_id(topic_id)
        return None if topic is None else topic.name


Guard = Callable[[Access, Route, RequestContext, Any, Reply], None]
"""Stands before the handler of an API: passes the request on as far as it is allowed, and refuses the rest."""


def refuse(route: Route, request: Any, reply: Reply, error: ErrorCode) -> None:
    """Answer a whole request with an error, or close the connection if the answer has no place for one."""
    send(route.error_response(request, error), reply)


def send(response: Any, reply: Reply) -> None:
    """Send a response; None closes the connection."""
    if response is None:
        reply.close("a request that has no answer was not authorized")
    else:
        reply(response)


def altering(ctx: RequestContext, reply: Reply, *changes: Callable[[Any], object]) -> Reply:
    """Return a reply that lets each change work on the answer before it is sent."""

    def alter(answer: Any) -> Any:
        for change in changes:
            change(answer)
        return answer

    return AlteredReply(ctx, reply, alter)


def extending(attribute: str, failed: Any) -> Callable[[Any], None]:
    """Return a change that appends refused entries to the same list of an answer."""

    def extend(answer: Any) -> None:
        setattr(answer, attribute, [*getattr(answer, attribute), *getattr(failed, attribute)])

    return extend
