"""The JSON API under /api/v1/, which is all that the live page knows.

Errors are ``{"error": "…"}`` with status 400 (malformed), 403 (another site, or unknown host name), 404, 405, 408, 409
(the cluster refuses), 413, 415, 503 or 504. Unknown query parameters are ignored. The shapes of the answers are in
`purgatorio.broker.web.document`; the requests about one thing (`control`, `groups`, `transactions`, `faults`, `clock`,
`network`, …) are in a module of that name beside this one.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.operator import ClusterControl, GroupControl, TransactionControl
from purgatorio.broker.purgatory import Purgatory
from purgatorio.broker.web.acls import ACL_ENDPOINTS
from purgatorio.broker.web.clock import CLOCK_ENDPOINTS
from purgatorio.broker.web.connections import CONNECTION_ENDPOINTS
from purgatorio.broker.web.control import CONTROL_ENDPOINTS
from purgatorio.broker.web.faults import FAULT_ENDPOINTS
from purgatorio.broker.web.groups import GROUP_ENDPOINTS
from purgatorio.broker.web.leadership import LEADERSHIP_ENDPOINTS
from purgatorio.broker.web.network import NETWORK_ENDPOINTS
from purgatorio.broker.web.quotas import QUOTA_ENDPOINTS
from purgatorio.broker.web.requests import Body, Nothing, int_param, json_response, read_change, whole_number
from purgatorio.broker.web.snapshots import SNAPSHOT_ENDPOINTS
from purgatorio.broker.web.state import (
    OPERATIONS_PER_PURGATORY,
    read_finished,
    read_follower,
    read_purgatory,
    read_state,
)
from purgatorio.broker.web.transactions import TRANSACTION_ENDPOINTS
from purgatorio.broker.web.upkeep import UPKEEP_ENDPOINTS
from purgatorio.broker.web.users import USER_ENDPOINTS
from purgatorio.broker.web.views import ClusterView, ShownBroker

MAX_OPERATIONS: Final = 1000
"""Parked or finished operations that one request may ask for."""
MAX_DELAY_MS: Final = 3_600_000
MAX_PATH_COMPARED: Final = 200
"""Characters of a path for which the nearest one is looked for."""


class FollowerChange(Body):
    """A change of how a broker's follower fetches are held back; settings that are not given stay.

    Attributes:
        held: whether no fetch is sent at all.
        delay_ms: how long the broker waits after records came, before the fetch that acknowledges them.
    """

    held: bool | None = None
    delay_ms: Annotated[int, Field(ge=0, le=MAX_DELAY_MS)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.held is None and self.delay_ms is None:
            raise ValueError("give held, delay_ms, or both")
        return self


class JsonApi:
    """The API's handlers.

    Args:
        cluster: the cluster that is shown and changed.
        control: knows the brokers that do not run.
        groups: finds the groups.
        transactions: finds the transactions.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(
        self,
        cluster: ClusterView,
        control: ClusterControl,
        groups: GroupControl,
        transactions: TransactionControl,
        allowed_host: str,
    ) -> None:
        self._cluster = cluster
        self._transactions = transactions
        self._control = control
        self._groups = groups
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The API's routes."""
        broker = "/api/v1/brokers/{broker_id}"
        purgatory = f"{broker}/purgatories/{{name}}"
        return [
            Route("/api/v1", self.index),
            Route("/api/v1/state", self.state),
            Route("/api/v1/finished", self.finished),
            Route(purgatory, self.purgatory),
            Route(f"{broker}/follower", self.follower, methods=["POST"]),
            Route(f"{purgatory}/operations/{{operation_id}}/expire", self.expire, methods=["POST"]),
        ]

    async def index(self, request: Request) -> Response:
        """``GET /api/v1``: the list of endpoints."""
        return json_response({"endpoints": ENDPOINTS})

    async def state(self, request: Request) -> Response:
        """``GET /api/v1/state?operations=60&since_ms=…``: the whole content of the page, at one moment."""
        operations = int_param(request, "operations", OPERATIONS_PER_PURGATORY, most=MAX_OPERATIONS)
        given = "since_ms" in request.query_params
        since_ms = int_param(request, "since_ms", 0, most=2**63) if given else None
        state = read_state(
            self._cluster,
            self._control,
            self._groups,
            self._transactions,
            operations=operations,
            since_ms=since_ms,
        )
        return json_response(state)

    async def finished(self, request: Request) -> Response:
        """``GET /api/v1/finished?limit=100``: the operations that ended last, newest first."""
        limit = int_param(request, "limit", 100, most=MAX_OPERATIONS)
        now_ms = self._cluster.clock.now_ms()
        return json_response({"now_ms": now_ms, "finished": read_finished(self._cluster.brokers, limit)})

    async def purgatory(self, request: Request) -> Response:
        """``GET /api/v1/brokers/{id}/purgatories/{name}?operations=1000``: one purgatory and its parked operations."""
        operations = int_param(request, "operations", MAX_OPERATIONS, most=MAX_OPERATIONS)
        _, purgatory = self._purgatory(request)
        now_ms = self._cluster.clock.now_ms()
        return json_response({"now_ms": now_ms, **read_purgatory(purgatory, self._transactions, now_ms, operations)})

    async def follower(self, request: Request) -> Response:
        """``POST /api/v1/brokers/{id}/follower`` with a `FollowerChange`: hold back this broker's follower fetches."""
        change = await read_change(request, FollowerChange, self._allowed_host, self._cluster.clock)
        broker = self._broker(request)
        if change.delay_ms is not None:
            broker.gate.delay_ms = change.delay_ms
        if change.held is not None:
            (broker.gate.hold if change.held else broker.gate.release)()
        return json_response({"broker": broker.broker_id, **read_follower(broker)})

    async def expire(self, request: Request) -> Response:
        """``POST …/operations/{op}/expire`` with ``{}``: expire a parked operation now."""
        await read_change(request, Nothing, self._allowed_host, self._cluster.clock)
        broker, purgatory = self._purgatory(request)
        operation_id = whole_number(request.path_params["operation_id"], most=2**63)
        operation = None if operation_id is None else purgatory.find(operation_id)
        if operation is None or not operation.expire():
            where = f"in purgatory {purgatory.name} of broker {broker.broker_id}"
            raise HTTPException(404, f"there is no such operation parked {where}, or no longer")
        return json_response({"broker": broker.broker_id, "purgatory": purgatory.name, "id": operation_id})

    def _broker(self, request: Request) -> ShownBroker:
        broker_id = request.path_params["broker_id"]
        for broker in self._cluster.brokers:
            if str(broker.broker_id) == broker_id:
                return broker
        known = [str(member.broker_id) for member in self._control.members]
        if broker_id in known:
            raise HTTPException(409, f"broker {broker_id} is not running")
        raise HTTPException(404, f"there is no such broker, only {', '.join(known)}")

    def _purgatory(self, request: Request) -> tuple[ShownBroker, Purgatory[Any]]:
        broker = self._broker(request)
        purgatories = list(broker.purgatories)
        for purgatory in purgatories:
            if purgatory.name == request.path_params["name"]:
                return broker, purgatory
        known = ", ".join(purgatory.name for purgatory in purgatories)
        raise HTTPException(404, f"broker {broker.broker_id} has no such purgatory, only {known}")


def near_path(path: str) -> str:
    """Return the end of a sentence that tells the path of the API nearest to a wrong one; empty if none is near."""
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


ENDPOINTS: Final[list[dict[str, Any]]] = [
    {"method": "GET", "path": "/", "does": "the live page"},
    {"method": "GET", "path": "/metrics", "does": "metrics of all brokers and the process, for Prometheus"},
    {"method": "GET", "path": "/healthz", "does": "200 while the process answers"},
    {"method": "GET", "path": "/readyz", "does": "200 when every broker runs and is registered, else 503"},
    {"method": "GET", "path": "/api/v1", "does": "this list"},
    {
        "method": "GET",
        "path": "/api/v1/state",
        "does": "brokers, purgatories, parked and finished operations, wheels, partitions; every list is bounded",
        "query": {
            "operations": f"parked operations per purgatory, up to {MAX_OPERATIONS}",
            "since_ms": "only operations that finished since then, on the clock of now_ms",
        },
    },
    {
        "method": "GET",
        "path": "/api/v1/finished",
        "does": "the operations that ended last, newest first",
        "query": {"limit": f"how many, up to {MAX_OPERATIONS}"},
    },
    {
        "method": "GET",
        "path": "/api/v1/brokers/{id}/purgatories/{name}",
        "does": "one purgatory with its parked operations, oldest first",
        "query": {"operations": f"how many, up to {MAX_OPERATIONS}"},
    },
    {
        "method": "POST",
        "path": "/api/v1/brokers/{id}/follower",
        "does": "hold back the fetches by which this broker follows others",
        "body": {"held": "true: send none", "delay_ms": f"wait so long after records came, 0 to {MAX_DELAY_MS}"},
    },
    {
        "method": "POST",
        "path": "/api/v1/brokers/{id}/purgatories/{name}/operations/{operation}/expire",
        "does": "let the deadline of a parked operation come now",
        "body": {},
    },
    *CONTROL_ENDPOINTS,
    *GROUP_ENDPOINTS,
    *TRANSACTION_ENDPOINTS,
    *FAULT_ENDPOINTS,
    *CLOCK_ENDPOINTS,
    *NETWORK_ENDPOINTS,
    *LEADERSHIP_ENDPOINTS,
    *SNAPSHOT_ENDPOINTS,
    *USER_ENDPOINTS,
    *CONNECTION_ENDPOINTS,
    *QUOTA_ENDPOINTS,
    *UPKEEP_ENDPOINTS,
    *ACL_ENDPOINTS,
]
