"""The requests of the JSON API about fault rules (see `purgatorio.broker.layers.faults`).

The admin HTTP itself is beyond every rule: a rule acts on requests of Kafka's protocol only, and can be removed here
whatever it does. The status is 400 if a rule cannot be, 404 if there is none of that id, and 409 if there are too many.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from purgatorio.broker.layers.faults import AnyLive, FaultError, TooManyFaults, parse_fault
from purgatorio.broker.web.requests import Body, Nothing, int_param, json_response, read_change, whole_number
from purgatorio.broker.web.views import ClusterView

FIRED_SHOWN: Final = 100
MAX_FIRED_SHOWN: Final = 1_000


class AnyRule(Body):
    """A fault rule; `parse_fault` checks the names."""

    model_config = ConfigDict(extra="allow", strict=True)


class FaultsApi:
    """The handlers.

    Args:
        cluster: the cluster of the rules.
        allowed_host: the configured host (see `purgatorio.broker.web.guard`).
    """

    def __init__(self, cluster: ClusterView, allowed_host: str) -> None:
        self._cluster = cluster
        self._allowed_host = allowed_host

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/api/v1/faults", self.listed, methods=["GET"]),
            Route("/api/v1/faults", self.add, methods=["POST"]),
            Route("/api/v1/faults", self.clear, methods=["DELETE"]),
            Route("/api/v1/faults/{rule_id}", self.remove, methods=["DELETE"]),
            Route("/api/v1/faults/{rule_id}/release", self.release, methods=["POST"]),
        ]

    async def listed(self, request: Request) -> Response:
        """``GET /api/v1/faults?fired=100``: the rules with their counts, and the faults that fired last."""
        limit = int_param(request, "fired", FIRED_SHOWN, most=MAX_FIRED_SHOWN)
        faults = self._cluster.faults
        fired = list(faults.fired)[-limit:] if limit else []
        return json_response(
            {
                "now_ms": self._cluster.clock.now_ms(),
                "faults": [live.as_data() for live in faults.rules],
                "fired": [each._asdict() for each in reversed(fired)],
            }
        )

    async def add(self, request: Request) -> Response:
        """``POST /api/v1/faults`` with a rule: apply it to the requests that are received from now on."""
        given = await self._changed(request, AnyRule)
        try:
            live = self._cluster.faults.add(parse_fault(given.model_extra or {}))
        except FaultError as error:
            raise HTTPException(400, str(error)) from None
        except TooManyFaults as error:
            raise HTTPException(409, str(error)) from None
        return json_response(live.as_data())

    async def clear(self, request: Request) -> Response:
        """``DELETE /api/v1/faults`` with ``{}``: remove all rules; requests that they hold go on."""
        await self._changed(request, Nothing)
        removed = len(self._cluster.faults.rules)
        self._cluster.faults.clear()
        return json_response({"removed": removed})

    async def remove(self, request: Request) -> Response:
        """``DELETE /api/v1/faults/{id}`` with ``{}``: remove a rule; requests that it holds go on."""
        await self._changed(request, Nothing)
        live = self._found(request)
        self._cluster.faults.remove(live.id)
        return json_response(live.as_data())

    async def release(self, request: Request) -> Response:
        """``POST /api/v1/faults/{id}/release`` with ``{}``: let the requests go on that a rule holds, and remove it."""
        await self._changed(request, Nothing)
        live = self._found(request)
        released = live.held
        live.release()
        return json_response({**live.as_data(), "released": released})

    async def _changed(self, request: Request, model: Any) -> Any:
        return await read_change(request, model, self._allowed_host, self._cluster.clock)

    def _found(self, request: Request) -> AnyLive:
        rule_id = whole_number(request.path_params["rule_id"], most=2**63)
        for live in self._cluster.faults.rules:
            if live.id == rule_id:
                return live
        raise HTTPException(404, "there is no such fault rule, or no longer")


FAULT_ENDPOINTS: Final[list[dict[str, Any]]] = [
    {
        "method": "GET",
        "path": "/api/v1/faults",
        "does": "the fault rules with their counts, oldest first, and the faults that fired last, newest first",
        "query": {"fired": f"how many faults that fired, up to {MAX_FIRED_SHOWN}"},
    },
    {
        "method": "POST",
        "path": "/api/v1/faults",
        "does": "add a fault rule: what is done to which requests; the newest rule that matches a request acts",
        "body": {
            "api, version, client, topic, topic_id, partition, group, transactional_id, broker": "which requests",
            "replica": "those of this broker instead of those of clients",
            "nth, count, probability": "how often",
            "error, errors": "answer with this error, or with these in turn; the work is not done",
            "delay_ms, hold": "wait before the work, or until the rule is released",
            "answer_delay_ms": "do the work, and answer later",
            "disconnect": "before or after the work",
            "drop": "request or answer",
            "throttle_ms, corrupt, observe": "change the answer, or only count",
            "hide": "leave the broker of this id out of the answers to Metadata and DescribeCluster",
            "name": "for lists",
            "toxic": "a rule about connections instead: latency, bandwidth, slow_close, timeout, reset_peer, slicer or "
            "limit_data",
            "stream, toxicity, client, broker, replica": "downstream or upstream, a share, and which connections",
            "latency_ms, jitter_ms, rate_kb, delay_ms, timeout_ms": "what the toxic is told",
            "average_size_bytes, size_variation_bytes, limit_bytes": "what the toxic is told",
        },
    },
    {"method": "DELETE", "path": "/api/v1/faults", "does": "remove all fault rules", "body": {}},
    {
        "method": "DELETE",
        "path": "/api/v1/faults/{id}",
        "does": "remove a fault rule; requests that it holds go on",
        "body": {},
    },
    {
        "method": "POST",
        "path": "/api/v1/faults/{id}/release",
        "does": "let the requests go on that a fault rule holds, and remove it",
        "body": {},
    },
]
