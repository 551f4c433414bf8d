"""The admin HTTP's application: the live page, metrics, health, and the JSON API of `purgatorio.admin.web.router`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from purgatorio.admin.metrics.prometheus import (
    BrokerCollector,
    FaultsCollector,
    LoopLagCollector,
    ScrapedMetrics,
    process_registry,
)
from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.table import LEARNING, OPERATIONS
from purgatorio.admin.web import pages
from purgatorio.admin.web.bodies import json_response
from purgatorio.admin.web.guard import HostGuard, SecurityHeaders
from purgatorio.admin.web.router import near_path, refused, routes
from purgatorio.admin.web.scrapes import Format, SharedScrapes, format_of
from purgatorio.admin.web.tokens import AdminTokens, TokenGuard
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.time.long_work import Steps

if TYPE_CHECKING:
    from purgatorio.admin.learn.lessons import SceneLessons

COST_OF_SAMPLE: Final = 3
"""The cost of a sample in a scrape (see `LongWork`)."""

Handler = Callable[[Request], Awaitable[Response]]


def create_app(
    cluster: BrokerCluster,
    control: ClusterControl,
    *,
    allowed_host: str,
    metrics_per_partition: bool = False,
    lessons: SceneLessons | None = None,
) -> Starlette:
    """Return the application that shows a cluster, without `guarded`.

    Args:
        allowed_host: the configured host; requests that change something must be addressed to it, to localhost, or to
            an IP address.
        metrics_per_partition: whether /metrics has series for each partition, not only for each topic.
        lessons: the scenes that the page offers, if any.
    """
    health = _Health(cluster, control, metrics_per_partition=metrics_per_partition)
    operator = Operator(cluster, control)
    operations, more = OPERATIONS, None
    if lessons is not None:
        from purgatorio.admin.learn.lessons import STATIC  # scenes, with their clients: 1 MB, which few clusters have

        lessons.take(operator)
        operations, more = (*OPERATIONS, *LEARNING), STATIC
    api = [Route("/api/v1/targets", health.targets), *routes(operator, allowed_host, operations)]
    return application(health.metrics, health.ready, api, pages.Page(more))


def application(metrics: Handler, ready: Handler, routes: Iterable[Route], page: pages.Page | None = None) -> Starlette:
    """Return an application with the page, metrics, health, and these routes of the JSON API."""
    page = page or pages.Page()
    app = Starlette(
        routes=[
            Route("/", page.index),
            Route("/static/{name}", page.static),
            Route("/metrics", metrics),
            Route("/healthz", _alive),
            Route("/readyz", ready),
            *routes,
        ],
        exception_handlers={HTTPException: _not_answered, OperationRefused: refused, Exception: _failed},
    )
    # A redirect would repeat any Host header, and no route needs one.
    app.router.redirect_slashes = False
    return app


def guarded(
    app: ASGIApp,
    allowed_host: str,
    tokens: AdminTokens | None,
    from_brokers: Callable[[ASGIApp], ASGIApp] | None = None,
) -> ASGIApp:
    """Return the application behind its guards.

    Args:
        tokens: those that requests need; None: every client that reaches the address may do everything.
        from_brokers: gets the guard of tokens, and returns one that also takes what other brokers ask (`ProofGuard`).
    """
    if tokens is not None:
        by_token: ASGIApp = TokenGuard(app, tokens)
        app = by_token if from_brokers is None else from_brokers(by_token)
    return SecurityHeaders(HostGuard(app, allowed_host))


class _Health:
    """The handlers for monitoring systems."""

    def __init__(self, cluster: BrokerCluster, control: ClusterControl, *, metrics_per_partition: bool) -> None:
        self._cluster = cluster
        self._control = control
        self._process = process_registry()
        self._process.register(LoopLagCollector(cluster.loop_lag))
        self._process.register(FaultsCollector(cluster.faults))
        self._brokers = BrokerCollector(lambda: cluster.brokers, per_partition=metrics_per_partition)
        self._scrapes = SharedScrapes(self._text)

    async def metrics(self, request: Request) -> Response:
        """``GET /metrics``: Prometheus's text format, or OpenMetrics if the client accepts that."""
        return await self._scrapes.answer(format_of(request.headers.get("accept", "")))

    async def _text(self, wanted: Format) -> bytes:
        metrics = list(self._process.collect())

        def steps() -> Steps:
            for metric in self._brokers.steps():
                if metric is not None:
                    metrics.append(metric)
                yield 0 if metric is None else COST_OF_SAMPLE * (10 + len(metric.samples))

        await self._cluster.work.take(steps())
        return await asyncio.to_thread(wanted.encode, ScrapedMetrics(metrics))

    async def ready(self, request: Request) -> Response:
        """``GET /readyz``: 200 when all brokers run, may lead, and have what the cluster begins with, else 503.

        A broker registers after it has begun to listen, and unregisters before it stops: its own image contains it. One
        that hears nothing from the store goes on with its last image, and leads nothing as soon as its lease is over.
        """
        run = [b.broker_id for b in self._cluster.brokers if b.broker_id in b.image.brokers and b.lifecycle.has_lease()]
        missing = [m.broker_id for m in self._control.members if m.broker_id not in run]
        ready = not missing and self._cluster.has_begun
        return json_response({"ready": ready, "missing": missing}, status_code=200 if ready else 503)

    async def targets(self, request: Request) -> Response:
        """``GET /api/v1/targets``: this process alone, as it is asked, in the format of Prometheus's http_sd."""
        return json_response([{"targets": [request.url.netloc], "labels": {}}])


async def _alive(request: Request) -> Response:
    """``GET /healthz``: 200 as long as the event loop turns."""
    return json_response({"status": "ok"})


async def _not_answered(request: Request, error: Exception) -> Response:
    """Answer an expected failure with JSON."""
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404 and detail == "Not Found":
        detail = f"there is nothing here{near_path(request.url.path) or '; GET /api/v1 lists what there is'}"
    elif error.status_code == 405:
        detail = f"{request.method} is not for this address{near_path(request.url.path)}"
    response = json_response({"error": detail}, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _failed(request: Request, error: Exception) -> Response:
    """Answer a bug with JSON. starlette raises the exception again, and the server logs it with its traceback."""
    return json_response({"error": "internal error; the broker's log says more"}, 500)
