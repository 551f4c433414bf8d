"""The OpenAPI document of the JSON API, made from the declarations of operations."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

from pydantic import TypeAdapter

from purgatorio.admin.operations.declare import Argument, Operation
from purgatorio.admin.operations.table import OPERATIONS
from purgatorio.admin.web.models import body_of, typed

_JSON: Final = "application/json"
_REFUSALS: Final = {
    "400": "what is asked for cannot be",
    "404": "there is no such thing",
    "409": "the cluster refuses",
    "503": "no broker can do it now",
}


def openapi(operations: Iterable[type[Operation]] = OPERATIONS) -> dict[str, Any]:
    """Return the document, in version 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for kind in operations:
        paths.setdefault(kind.public_path(), {})[kind.method.lower()] = _operation(kind)
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Purgatorio's admin HTTP",
            "version": version("purgatorio"),
            "description": "What an operator or a test does to a running cluster.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": error},
            "securitySchemes": {
                "read": {"type": "http", "scheme": "bearer", "description": "a token that may only read, or any other"},
                "admin": {"type": "http", "scheme": "bearer", "description": "the token that may do everything"},
            },
        },
    }


def _operation(kind: type[Operation]) -> dict[str, Any]:
    arguments = list(kind.arguments())
    described: dict[str, Any] = {
        "operationId": kind.__name__,
        "summary": kind.does(),
        "tags": [kind.__module__.rpartition(".")[2]],
        "security": [{}, {kind.needs(): []}],
        "responses": {
            "200": {"description": "it is done", "content": {_JSON: {"schema": {"type": "object"}}}},
            **{code: _refusal(words) for code, words in _REFUSALS.items()},
        },
    }
    if parameters := [_parameter(each) for each in arguments if each.place != "body"]:
        described["parameters"] = parameters
    if kind.method != "GET":
        schema = body_of(kind).model_json_schema(ref_template="#/components/schemas/{model}")
        described["requestBody"] = {"required": True, "content": {_JSON: {"schema": schema}}}
    return described


def _refusal(words: str) -> dict[str, Any]:
    return {"description": words, "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}}


def _parameter(argument: Argument) -> dict[str, Any]:
    return {
        "name": argument.name,
        "in": argument.place,
        "required": argument.place == "path",
        "description": argument.help.words,
        "schema": TypeAdapter(typed(argument.hint)).json_schema(),
    }
