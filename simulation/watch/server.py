"""Serves the page over a recorded simulation: its routes answer with the frame that the player shows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.admin.operations.brokers import ListConnections
from purgatorio.admin.operations.declare import Answer, Operation
from purgatorio.admin.operations.purgatories import Matrix, State, named_partitions
from purgatorio.admin.web.app import application, guarded
from purgatorio.admin.web.bodies import json_response, read_change
from purgatorio.admin.web.pages import Page
from purgatorio.admin.web.router import listing_routes
from purgatorio.admin.web.server import HttpService
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.purgatory.clock import Clock
from purgatorio.simulation.watch.player import ListMarks, MovePlayer, Player, ShowPlayer

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from purgatorio.admin.web.tokens import AdminTokens

HOST: Final = "127.0.0.1"
STATIC: Final = Path(__file__).parent / "static"
"""The files that the page has beside its own."""
READ_ONLY: Final = "this is the recording of a simulated seed: it has ended, and can only be played"


class WatchServer(HttpService):
    """The page over a recording, on this machine alone."""

    def __init__(self, player: Player, clock: Clock) -> None:
        super().__init__(clock)
        self._player = player

    def _create_app(self, host: str, tokens: AdminTokens | None) -> ASGIApp:
        player = self._player
        routes = [
            *listing_routes((State, Matrix, ListConnections, ShowPlayer, ListMarks, MovePlayer)),
            _route(State, self._state),
            _route(Matrix, lambda request: player.answer("matrix")),
            _route(ListConnections, lambda request: player.answer("connections")),
            _route(ShowPlayer, lambda request: player.state()),
            _route(ListMarks, lambda request: player.marks()),
            Route(f"/api/v1{MovePlayer.path}", partial(self._move, host), methods=["POST"]),
            Route("/api/v1/{path:path}", _read_only, methods=["GET", "POST", "PUT", "DELETE"]),
        ]
        return guarded(application(_read_only, _ready, routes, Page(STATIC)), host, tokens)

    async def _close_app(self) -> None:
        """Do nothing: a recording has nothing that runs."""

    def _state(self, request: Request) -> Answer:
        """Return the state with the operations and partitions that are asked for."""
        state, asked = {**self._player.answer("state"), "recorded": True}, request.query_params
        since_ms = asked.get("since_ms", "")
        if since_ms.isdecimal():
            newest = [row for row in state["finished"] if row["done_ms"] >= int(since_ms)]
            state = {**state, "finished": newest}
        if "partitions" in asked:
            try:
                wanted = set(named_partitions(asked["partitions"]))
            except ValueError as error:
                raise HTTPException(400, str(error)) from None
            shown = [row for row in state["partitions"] if (row["topic"], row["partition"]) in wanted]
            state = {**state, "partitions": shown}
        return state

    async def _move(self, host: str, request: Request) -> Response:
        self._player.move(MovePlayer(**await read_change(request, MovePlayer, host, self._clock)))
        return json_response(self._player.state())


def _route(kind: type[Operation], answer: Callable[[Request], Answer]) -> Route:
    async def answered(request: Request) -> Response:
        return json_response(answer(request))

    return Route(f"/api/v1{kind.path}", answered)


async def _ready(request: Request) -> Response:
    """``GET /readyz``: 200, as a recording has all that it will have."""
    return json_response({"ready": True, "missing": []})


async def _read_only(request: Request) -> Response:
    """Refuse what a recording does not have."""
    raise HTTPException(409, READ_ONLY)


def why_not_listening(port: int, error: OSError) -> str:
    """Return a sentence for a port that cannot be listened on."""
    return f"cannot listen on {HOST}:{port}: {os.strerror(error.errno or 0)}; choose another with --admin-port (0: any)"


async def serve(player: Callable[[Clock], Player], port: int, listening: Callable[[str], object]) -> None:
    """Serve a recording until this is cancelled.

    Args:
        player: makes the player with the machine's clock.
        listening: called with the page's address.

    Raises:
        OSError: the port cannot be listened on.
    """
    clock = SystemClock()
    server = WatchServer(player(clock), clock)
    await server.start(HOST, port)
    try:
        listening(server.page_url)
        await asyncio.get_running_loop().create_future()
    finally:
        await server.stop()
