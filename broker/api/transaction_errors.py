"""Error codes of transactions that older versions of requests do not know."""

from __future__ import annotations

from purgatorio.broker.routing.request import RequestContext
from purgatorio.protocol.errors import ErrorCode


def fenced_before(version: int, ctx: RequestContext, error_code: ErrorCode) -> ErrorCode:
    """Return the error code as the request's version knows it: before `version` a fenced producer has another one.

    PRODUCER_FENCED came with KIP-588; before, clients knew INVALID_PRODUCER_EPOCH.
    """
    is_old = ctx.api_version < version
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old and error_code == ErrorCode.PRODUCER_FENCED else error_code
