"""What clients were refused: counted, and told in the log, a few lines of each API."""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import RequestContext
from purgatorio.logger import LineBudget, cut, get_logger
from purgatorio.protocol.api_key import ApiKey

_log = get_logger(__name__)


class Audit:
    """The refusals of one broker.

    Args:
        broker_id: the broker.
        now_ms: the broker's clock.

    Attributes:
        denied: how often an operation on a resource of a type was refused, by API key, operation and type.
    """

    def __init__(self, broker_id: int, now_ms: Callable[[], int]) -> None:
        self.denied: dict[tuple[int, AclOperation, ResourceType], int] = {}
        self._broker_id = broker_id
        self._now_ms = now_ms
        self._budgets: dict[int, LineBudget] = {}

    def refused(self, ctx: RequestContext, operation: AclOperation, kind: ResourceType, name: str, more: int) -> None:
        """Note that a request may not do an operation on a resource, nor on `more` others of the type."""
        key = (ctx.api_key, operation, kind)
        self.denied[key] = self.denied.get(key, 0) + 1 + more
        session = ctx.session
        _log.warn_within(
            self._budgets.setdefault(ctx.api_key, LineBudget()),
            self._now_ms(),
            "access denied",
            broker=self._broker_id,
            principal=cut(str(session.principal)),
            host=session.host,
            operation=operation.name,
            resource=f"{kind.name}:{cut(name)}",
            api=ApiKey(ctx.api_key).name,
            client_id=None if ctx.client_id is None else cut(ctx.client_id),
            listener=session.listener,
            **({"resources_more": more} if more else {}),
        )
