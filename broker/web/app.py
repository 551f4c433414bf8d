"""What the admin HTTP answers.

* `GET /metrics` Prometheus, `GET /healthz` alive, `GET /readyz` every broker registered and listening.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker.collector import Snapshot, build_registry

if TYPE_CHECKING:
    from broker.cluster import Cluster


def create_app(cluster: Cluster, *, allowed_host: str) -> Starlette:
    """The application that shows a cluster."""
    registry = build_registry(lambda: cluster.brokers)

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        body = await asyncio.to_thread(encode, Snapshot(registry))
        return Response(body, media_type=content_type)

    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(request: Request) -> Response:
        missing = [b.broker_id for b in cluster.brokers if b.broker_id not in b.image.brokers]
        return JSONResponse({"ready": not missing, "missing": missing}, status_code=503 if missing else 200)

    return Starlette(routes=[Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)])
