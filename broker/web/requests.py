"""Bodies, numbers in URLs, and responses, for all handlers of the JSON API."""

from __future__ import annotations

import json
from typing import Final, TypeVar

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.time.clock import Clock
from purgatorio.broker.web.bodies import Body
from purgatorio.broker.web.guard import check_may_change, read_body

MAX_FIELD_CHARS: Final = 100
"""A longer name is near no field."""


B = TypeVar("B", bound=Body)


def json_response(content: object, status_code: int = 200) -> Response:
    """Return compact JSON in ASCII: names that clients chose may contain any character."""
    body = json.dumps(content, separators=(",", ":"))
    return Response(body, status_code, media_type="application/json", headers={"Cache-Control": "no-store"})


async def read_change(request: Request, model: type[B], allowed_host: str, clock: Clock) -> B:
    """Check a request that changes something, and return its body.

    Args:
        allowed_host: the configured host (see `check_may_change`).

    Raises:
        HTTPException: the request must not change anything, or its body is invalid.
    """
    check_may_change(request.headers, allowed_host)
    body = await read_body(request, clock)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise HTTPException(400, _in_words(error, model)) from None


def _in_words(error: ValidationError, model: type[Body]) -> str:
    """Describe the mistakes in a body, one clause each; of an unknown field, name the one that is near."""
    clauses = []
    for mistake in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(step) for step in mistake["loc"])
        what = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden" and len(where) <= MAX_FIELD_CHARS:
            what = f"there is no such field{nearest(where, model.model_fields)}"
        clauses.append(f"{where}: {what}" if where else what)
    return "; ".join(clauses[:5])


def int_param(request: Request, name: str, default: int, *, most: int) -> int:
    """Return a whole number of the query string, from 0 to `most`."""
    given = request.query_params.get(name)
    if given is None:
        return default
    number = whole_number(given, most)
    if number is None:
        raise HTTPException(400, f"{name} must be a whole number from 0 to {most}")
    return number


def whole_number(text: str, most: int) -> int | None:
    """Return the number that `text` is; None if it is not a number, or above `most`. Long texts are not parsed."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))):
        return None
    number = int(text)
    return number if number <= most else None
