"""The check of APIs whose requests name several resources, each of which has its own answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from purgatorio.broker.layers.access.access import CODES, Access, altering, changed, extending, send
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.replies import LostReply
from purgatorio.broker.routing.request import Reply, RequestContext, Route

Change = Callable[[Access, RequestContext, Any, Any], object]
"""Alters the answer to a request: gets both."""


NEVER: Final = 1 << 15
"""Above all versions."""


class EachOne:
    """Passes on the resources that may be used, and adds the refused ones to the handler's answer.

    A request of which nothing is refused passes as it is.

    Args:
        items: where the request has the resources: messages, or texts.
        answers: where the response has them.
        name: where a message has the resource's name; not given: the items are names.
        ids_since: the first version in which topics have ids in place of names.
        failed: returns the response for refused resources, if it is not the API's `error_response`.
        change: alters each answer, whether something is refused or not.
    """

    __slots__ = ("_answers", "_bit", "_change", "_failed", "_ids_since", "_items", "_kind", "_name", "_operation")

    def __init__(
        self,
        operation: AclOperation,
        kind: ResourceType,
        items: str,
        answers: str,
        *,
        name: str = "",
        ids_since: int = NEVER,
        failed: Callable[[Any], Any] | None = None,
        change: Change | None = None,
    ) -> None:
        self._operation: Final = operation
        self._kind: Final = kind
        self._items = items
        self._answers = answers
        self._bit = 1 << operation
        self._name = attrgetter(name) if name else None
        self._ids_since = ids_since
        self._failed = failed
        self._change = change

    def __call__(self, access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Check one request."""
        if self._change is not None:
            reply = altering(ctx, reply, partial(self._change, access, ctx, request))
        self.pass_on(self.refused(access, ctx, request), route, ctx, request, reply)

    def pass_on(self, refused: dict[int, Any], route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Pass a request on, without the resources that are refused."""
        if not refused:
            route.handler(ctx, request, reply)
            return
        allowed = [each for nth, each in enumerate(getattr(request, self._items)) if nth not in refused]
        part = changed(request, **{self._items: list(refused.values())})
        failed = route.error_response(part, CODES[self._kind]) if self._failed is None else self._failed(part)
        if not allowed:
            send(failed, reply)
            return
        rest = changed(request, **{self._items: allowed})
        if failed is None:  # Produce with acks=0
            reply = LostReply(partial(reply.close, "a part of a request that has no answer was not authorized"))
        else:
            reply = altering(ctx, reply, extending(self._answers, failed))
        route.handler(ctx, rest, reply)

    def refused(self, access: Access, ctx: RequestContext, request: Any) -> dict[int, Any]:
        """Return the resources that the client may not use, by their position in the request, and note them."""
        permissions = access.authorizer.of(ctx.session)
        items = getattr(request, self._items)
        names = self._names(access, ctx, items)
        kept, bit = permissions.kept[self._kind], self._bit
        for name in names:
            if not kept.get(name, 0) & bit:
                break
        else:
            return {}  # nearly all requests
        operation, kind = self._operation, self._kind
        refused = {
            nth: name
            for nth, name in enumerate(names)
            if name is not None and not permissions.allows(operation, kind, name)
        }
        if refused:
            access.audit.refused(ctx, operation, kind, next(iter(refused.values())), len(refused) - 1)
        return {nth: items[nth] for nth in refused}

    def _names(self, access: Access, ctx: RequestContext, items: Sequence[Any]) -> Sequence[Any]:
        """Return the names of the resources; None for a topic whose id is unknown."""
        if ctx.api_version >= self._ids_since:
            return [access.name_of(each.topic_id) for each in items]
        return items if self._name is None else list(map(self._name, items))
