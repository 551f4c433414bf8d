"""The check of APIs whose requests name several resources, each of which has its own answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from purgatorio.broker.layers.access.access import CODES, Access, altering, extending, send
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.replies import LostReply
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.parts import AnsweredArray, changed, has_error_at_top_only, parts_of, refused

Change = Callable[[Access, RequestContext, Any, Any], object]
"""Alters the answer to a request: gets both."""


class EachOne:
    """Passes on the resources that may be used, and adds the refused ones to the handler's answer.

    A request of which nothing is refused passes as it is.

    Args:
        key: of the API.
        part: the part of its requests with the resources, if they have several.
        failed: returns the response for refused resources, if it is not the one that follows from the declarations.
        change: alters each answer, whether something is refused or not.
    """

    __slots__ = ("_bit", "_change", "_failed", "_ids_since", "_items", "_key", "_kind", "_name", "_operation", "_part")

    def __init__(
        self,
        key: ApiKey,
        operation: AclOperation,
        kind: ResourceType,
        *,
        part: AnsweredArray | None = None,
        failed: Callable[[Any], Any] | None = None,
        change: Change | None = None,
    ) -> None:
        self._operation: Final = operation
        self._kind: Final = kind
        part = parts_of(key)[0] if part is None else part
        self._key = key
        self._part = part
        self._items = part.items
        self._bit = 1 << operation
        self._name = attrgetter(part.name) if part.name else None
        self._ids_since = part.ids_since
        self._failed = failed
        self._change = change

    def __call__(self, access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Check one request."""
        if self._change is not None:
            reply = altering(ctx, reply, partial(self._change, access, ctx, request))
        self.pass_on(self.refused(access, ctx, request), route, ctx, request, reply)

    def pass_on(self, denied: dict[int, Any], route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Pass a request on, without the resources that are refused."""
        if not denied:
            route.handler(ctx, request, reply)
            return
        allowed = [each for nth, each in enumerate(getattr(request, self._items)) if nth not in denied]
        part = changed(request, **{self._items: list(denied.values())})
        failed = self._answer(route, part)
        if not allowed:
            send(failed, reply)
            return
        rest = changed(request, **{self._items: allowed})
        if failed is None:  # Produce with acks=0
            reply = LostReply(partial(reply.close, "a part of a request that has no answer was not authorized"))
        else:
            reply = altering(ctx, reply, extending(self._part.answers, failed))
        route.handler(ctx, rest, reply)

    def _answer(self, route: Route, part: Any) -> Any:
        """Return the answer to refused resources, which clients would ignore beside an error of the whole request."""
        if self._failed is not None:
            return self._failed(part)
        if has_error_at_top_only(self._key):
            return refused(self._key, part, CODES[self._kind])
        return route.error_response(part, CODES[self._kind])

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
        denied = {
            nth: name
            for nth, name in enumerate(names)
            if name is not None and not permissions.allows(operation, kind, name)
        }
        if denied:
            access.audit.refused(ctx, operation, kind, next(iter(denied.values())), len(denied) - 1)
        return {nth: items[nth] for nth in denied}

    def _names(self, access: Access, ctx: RequestContext, items: Sequence[Any]) -> Sequence[Any]:
        """Return the names of the resources; None for a topic whose id is unknown."""
        if ctx.api_version >= self._ids_since:
            return [access.name_of(each.topic_id) for each in items]
        return items if self._name is None else list(map(self._name, items))
