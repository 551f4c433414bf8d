"""The bodies of requests that change something, and those of answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.web.guard import check_may_change, read_body
from purgatorio.purgatory.clock import Clock


async def read_change(request: Request, kind: type[Operation], allowed_host: str, clock: Clock) -> dict[str, Any]:
    """Check a request that changes something; return the values in its body, by the names of the attributes of `kind`.

    Args:
        kind: what is asked for.
        allowed_host: the configured host (see `check_may_change`).

    Raises:
        HTTPException: the request must not change anything, or its body is invalid.
    """
    check_may_change(request.headers, allowed_host)
    body = await read_body(request, clock, kind.max_body_bytes)
    await load_models()
    from purgatorio.admin.web.models import values_of

    return values_of(kind, body)


async def load_models() -> None:
    """Import pydantic and what uses it, in a thread: no Kafka client waits for it, and most clusters never need it."""
    await asyncio.to_thread(_import_models)


def _import_models() -> None:
    import purgatorio.admin.web.models  # noqa: F401


def json_response(content: object, status_code: int = 200) -> Response:
    """Return compact JSON in ASCII: names that clients chose may contain any character."""
    body = json.dumps(content, separators=(",", ":"))
    return Response(body, status_code, media_type="application/json", headers={"Cache-Control": "no-store"})
