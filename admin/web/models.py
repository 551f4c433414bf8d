"""Models of pydantic for the bodies of requests, made from the declarations of operations.

Import it only when a request needs it: pydantic takes 8 MB and 0.1 s, and few requests have bodies.
"""

from __future__ import annotations

import types
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.exceptions import HTTPException

from purgatorio.admin.operations.declare import Limits, Operation
from purgatorio.broker.layers.faults.names import nearest

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


def values_of(kind: type[Operation], body: bytes) -> dict[str, Any]:
    """Return the values in the body of a request for an operation, by the names of its attributes.

    Raises:
        HTTPException: the body is invalid.
    """
    model = body_of(kind)
    try:
        return model.model_validate_json(body).given()
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
