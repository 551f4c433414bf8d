"""The bodies of requests, models of pydantic made from the declarations of operations, and those of answers."""

from __future__ import annotations

import json
import types
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from purgatorio.admin.operations.declare import Limits, Operation
from purgatorio.admin.web.guard import check_may_change, read_body
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.purgatory.clock import Clock

MAX_FIELD_CHARS: Final = 100
"""A longer name is near no field."""


class Body(BaseModel):
    """The body of a request: JSON types are not converted, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def given(self) -> dict[str, Any]:
        """Return what was given, by the names of the operation's attributes."""
        return {name: getattr(self, name) for name in self.model_fields_set}


_made: Final[dict[type[Operation], type[Body]]] = {}
"""The models that were needed so far; making one takes a millisecond."""


def body_of(kind: type[Operation]) -> type[Body]:
    """Return the model of an operation's body, which is empty if it has none."""
    if kind not in _made:
        _made[kind] = _body_of(kind)
    return _made[kind]


def _body_of(kind: type[Operation]) -> type[Body]:
    arguments = [each for each in kind.arguments() if each.place == "body"]
    if len(arguments) == 1 and arguments[0].help.whole is not None:
        return _anything(arguments[0].name)
    named: dict[str, Any] = {
        each.name: (typed(each.hint), Field(... if each.is_required else each.default, description=each.help.words))
        for each in arguments
    }
    return create_model(kind.__name__, __base__=Body, __doc__=kind.__doc__, **named)


def _anything(name: str) -> type[Body]:
    """Return a body of any names, which are all the value of one attribute."""

    class Anything(Body):
        model_config = ConfigDict(extra="allow", strict=True)

        def given(self) -> dict[str, Any]:
            return {name: dict(self.model_extra or {})}

    return Anything


def typed(hint: Any) -> Any:
    """Return a type of a declaration with pydantic's limits for ours."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = next((each for each in inner[1:] if isinstance(each, Limits)), Limits())
        if limits.base64:
            return Base64Bytes
        bounds: dict[str, Any] = {
            name: value for name, value in limits._asdict().items() if value not in (None, False) or value == 0
        }
        bounds.pop("base64", None)
        if bounds.pop("finite", False):
            bounds["allow_inf_nan"] = False
        return Annotated[typed(inner[0]), Field(**bounds)]
    if origin in (Union, types.UnionType):
        return Union[tuple(map(typed, inner))]  # noqa: UP007 - made of a list
    if origin in (list, dict):
        return origin[tuple(map(typed, inner))]
    return hint


async def read_change(request: Request, kind: type[Operation], allowed_host: str, clock: Clock) -> Body:
    """Check a request that changes something, and return its body.

    Args:
        kind: what is asked for.
        allowed_host: the configured host (see `check_may_change`).

    Raises:
        HTTPException: the request must not change anything, or its body is invalid.
    """
    check_may_change(request.headers, allowed_host)
    model, body = body_of(kind), await read_body(request, clock, kind.max_body_bytes)
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
        if mistake["type"] == "literal_error":
            what = what.replace("'", "")
        clauses.append(f"{where}: {what}" if where else what)
    return "; ".join(clauses[:5])


def json_response(content: object, status_code: int = 200) -> Response:
    """Return compact JSON in ASCII: names that clients chose may contain any character."""
    body = json.dumps(content, separators=(",", ":"))
    return Response(body, status_code, media_type="application/json", headers={"Cache-Control": "no-store"})
