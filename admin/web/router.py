"""The JSON API under /api/v1: a route for each operation of `purgatorio.admin.operations`, their list, and OpenAPI.

Errors are ``{"error": "…"}`` with status 400 (malformed), 403 (another site, or unknown host name), 404, 405, 408, 409
(the cluster refuses), 413, 415, 503 (no broker can do it now) or 504 (replicas were not in sync in time). Unknown query
parameters are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.admin.operations.declare import Argument, Operation, limits_of
from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.table import OPERATIONS
from purgatorio.admin.web.bodies import json_response, load_models, read_change
from purgatorio.admin.web.sharing import SharedAnswers
from purgatorio.broker.cluster.decisions import when_led
from purgatorio.broker.cluster.errors import (
    AwaitsElection,
    ClusterUnavailable,
    Elsewhere,
    Invalid,
    LeaderRefuses,
    MayBeDone,
    NotInSync,
    NotThere,
    OperationRefused,
)
from purgatorio.broker.layers.faults.names import nearest

MAX_PATH_COMPARED: Final = 200
"""Characters of a path for which the nearest one is looked for."""
MAX_PARTITIONS_TOLD: Final = 1_000
"""Partitions that a refusal lists."""
_STATUS: Final = {Invalid: 400, NotThere: 404, ClusterUnavailable: 503, NotInSync: 504}


def routes(operator: Operator, allowed_host: str, operations: Iterable[type[Operation]] = OPERATIONS) -> list[Route]:
    """Return the routes of the API.

    Args:
        allowed_host: the configured host (see `purgatorio.admin.web.guard`).
    """
    shared = SharedAnswers()
    operations = tuple(operations)
    return [
        *listing_routes(operations),
        *(
            Route(f"/api/v1{each.path}", partial(_run, each, operator, allowed_host, shared), methods=[each.method])
            for each in operations
        ),
    ]


def listing_routes(operations: tuple[type[Operation], ...] = OPERATIONS) -> list[Route]:
    """Return the routes that list the API."""
    more = [listed(each) for each in operations if each not in OPERATIONS]
    return [
        Route("/api/v1", partial(_list, {"endpoints": [*ENDPOINTS, *more]})),
        Route("/api/v1/openapi.json", partial(_openapi, operations)),
    ]


async def _list(content: object, request: Request) -> Response:
    return json_response(content)


async def _openapi(operations: tuple[type[Operation], ...], request: Request) -> Response:
    await load_models()
    from purgatorio.admin.web.openapi import openapi

    return json_response(openapi(operations))


async def _run(
    kind: type[Operation], operator: Operator, allowed_host: str, shared: SharedAnswers, request: Request
) -> Response:
    """Answer a request for an operation; the body becomes values of its attributes, never names of parameters."""
    given: dict[str, Any] = {}
    if kind.method != "GET":
        given = await read_change(request, kind, allowed_host, operator.cluster.clock)
    operation = asked_for(kind, request, given)
    run = partial(when_led, partial(operation.run, operator))
    if found := await shared.answer(kind, request, run):
        return found
    try:
        return json_response(await run())
    finally:
        if kind.method != "GET":
            shared.changed()


def asked_for(kind: type[Operation], request: Request, given: Mapping[str, Any]) -> Operation:
    """Return the operation that a request asks for.

    Args:
        given: the values of attributes in its body.

    Raises:
        HTTPException: a value is none.
    """
    values = dict(given)
    for argument in kind.arguments():
        if argument.place == "path":
            values[argument.name] = _in_path(argument, request)
        elif argument.place == "query" and argument.name in request.query_params:
            values[argument.name] = _in_query(argument, request)
    try:
        return kind(**values)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


def _in_path(argument: Argument, request: Request) -> object:
    """Return a value of the path; -1, which nothing has, for a number that is none."""
    text = request.path_params[argument.name]
    if argument.kind is not int:
        return text
    number = _whole_number(text, _most(argument))
    return -1 if number is None else number


def _in_query(argument: Argument, request: Request) -> object:
    text, most = request.query_params[argument.name], _most(argument)
    if argument.kind is not int:
        return text
    number = _whole_number(text, most)
    if number is None:
        raise HTTPException(400, f"{argument.name} must be a whole number from 0 to {most}")
    return number


def _whole_number(text: str, most: int) -> int | None:
    """Return the number that `text` is; None if it is not a number, or above `most`. Long texts are not parsed."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))):
        return None
    number = int(text)
    return number if number <= most else None


def _most(argument: Argument) -> int:
    most = limits_of(argument.hint).le
    return 2**63 if most is None else int(most)


async def refused(request: Request, error: Exception) -> Response:
    """Answer an `OperationRefused` with JSON; `refusal` names the kind where clients go on by it."""
    assert isinstance(error, OperationRefused)
    content: dict[str, Any] = {"error": str(error)}
    if isinstance(error, AwaitsElection | Elsewhere | LeaderRefuses | MayBeDone):
        content["refusal"] = type(error).__name__
    if isinstance(error, NotInSync):
        content["not_in_sync"] = [str(tp) for tp in error.partitions[:MAX_PARTITIONS_TOLD]]
    return json_response(content, next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 409))


def near_path(path: str) -> str:
    """Return the end of a sentence with the path of the API nearest to a wrong one; empty if none is near."""
    if len(path) > MAX_PATH_COMPARED:
        return ""
    parts = path.split("/")
    patterns = (endpoint["path"].split("/") for endpoint in ENDPOINTS)
    known = {
        "/".join(part if own.startswith("{") else own for own, part in zip(pattern, parts, strict=True))
        for pattern in patterns
        if len(pattern) == len(parts)
    }
    return nearest(path, sorted(known - {path}))


def listed(kind: type[Operation]) -> dict[str, Any]:
    """Return an operation as the list of the API has it."""
    listed: dict[str, Any] = {"method": kind.method, "path": kind.public_path(), "does": kind.does()}
    arguments = [each for each in kind.arguments() if each.place != "path"]
    described: dict[str, str] = {}
    for words, alike in groupby(arguments, key=lambda each: each.help.words):
        described[", ".join(each.name for each in alike)] = words
    if arguments and arguments[0].help.whole is not None:
        described = dict(arguments[0].help.whole())
    if kind.method != "GET":
        listed["body"] = described
    elif described:
        listed["query"] = described
    return listed


ENDPOINTS: Final[list[dict[str, Any]]] = [
    {"method": "GET", "path": "/", "does": "the live page"},
    {"method": "GET", "path": "/metrics", "does": "metrics of all brokers and the process, for Prometheus"},
    {"method": "GET", "path": "/healthz", "does": "200 while the process answers"},
    {"method": "GET", "path": "/readyz", "does": "200 when every broker runs, may lead, and has its data, else 503"},
    {"method": "GET", "path": "/api/v1/targets", "does": "where /metrics of each process is, for Prometheus's http_sd"},
    {"method": "GET", "path": "/api/v1", "does": "this list"},
    {"method": "GET", "path": "/api/v1/openapi.json", "does": "this list as an OpenAPI document"},
    *map(listed, OPERATIONS),
]
