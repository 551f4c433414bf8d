"""The requests of the JSON API about the brokers' time (see `purgatorio.broker.operator.clock_control`).

The status is 400 if time cannot move so, and 409 if the cluster was given a clock that cannot be moved.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.operator import ClockControl
from purgatorio.broker.operator.clock_control import MAX_ADVANCE_SECONDS, EndedOperation
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.broker.web.requests import Body, Nothing, json_response, read_change
from purgatorio.broker.web.views import ClusterView

ENDED_SHOWN: Final = 1_000
"""Operations that one answer lists."""


class Advance(Body):
    """How far time moves.

    Attributes:
        seconds: how far.
        sessions: whether the time counts for members of groups as well.
    """

    seconds: Annotated[float, Field(ge=0, le=MAX_ADVANCE_SECONDS, allow_inf_nan=False)]
    sessions: bool = False


class ClockApi:
    """The handlers.

    Args:
        cluster: the cluster.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, allowed_host: str) -> None:
        self._cluster = cluster
        self._control = ClockControl(cluster)
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/api/v1/clock", self.shown),
            Route("/api/v1/clock/advance", self.advance, methods=["POST"]),
            Route("/api/v1/clock/freeze", self.freeze, methods=["POST"]),
            Route("/api/v1/clock/unfreeze", self.unfreeze, methods=["POST"]),
        ]

    async def shown(self, request: Request) -> Response:
        """``GET /api/v1/clock``: the brokers' time, whether it can be moved, and whether it stands still."""
        return json_response(self._state())

    async def advance(self, request: Request) -> Response:
        """``POST /api/v1/clock/advance`` with an `Advance`: move the time; answers with what ended by that."""
        wanted = await read_change(request, Advance, self._allowed_host, self._cluster.clock)
        ended = await self._control.advance(wanted.seconds, sessions=wanted.sessions)
        shown = [_ended(each) for each in ended[:ENDED_SHOWN]]
        return json_response({**self._state(), "ended_count": len(ended), "ended": shown})

    async def freeze(self, request: Request) -> Response:
        """``POST /api/v1/clock/freeze`` with ``{}``: stop the brokers' time."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        self._control.clock.freeze()
        return json_response(self._state())

    async def unfreeze(self, request: Request) -> Response:
        """``POST /api/v1/clock/unfreeze`` with ``{}``: let the brokers' time go on."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        self._control.clock.unfreeze()
        return json_response(self._state())

    def _state(self) -> dict[str, Any]:
        clock = self._cluster.clock
        movable = isinstance(clock, MovableClock)
        frozen = isinstance(clock, MovableClock) and clock.is_frozen
        return {"now_ms": clock.now_ms(), "wall_ms": clock.wall_ms(), "movable": movable, "frozen": frozen}


def _ended(ended: EndedOperation) -> dict[str, Any]:
    operation = ended.operation
    return {
        "broker": ended.broker_id,
        "purgatory": operation.purgatory,
        "client": operation.client,
        "keys": [str(key) for key in operation.keys],
        "missing": operation.detail,
        "waited_ms": operation.done_ms - operation.parked_ms,
    }


CLOCK_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {
        "method": "GET",
        "path": "/api/v1/clock",
        "does": "the brokers' time, and whether it can be moved or stands still",
    },
    {
        "method": "POST",
        "path": "/api/v1/clock/advance",
        "does": "move the brokers' time forward; answers with the operations whose time was over",
        "body": {
            "seconds": "how far",
            "sessions": "true: also for members of groups, who cannot send heartbeats at that pace",
        },
    },
    {"method": "POST", "path": "/api/v1/clock/freeze", "does": "stop the brokers' time", "body": {}},
    {"method": "POST", "path": "/api/v1/clock/unfreeze", "does": "let the brokers' time go on", "body": {}},
]
