"""The list of APIs that brokers answer, and the routes of one broker made from it."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from purgatorio.broker.api.registry import ApiHandler, Services
from purgatorio.broker.routing.request import Route, Routes
from purgatorio.protocol import api
from purgatorio.protocol.api_key import ApiKey

APIS: Final[tuple[ApiHandler, ...]] = tuple(
    import_module(f"purgatorio.broker.api.{ApiKey(key).name.lower()}").API for key in sorted(api.APIS)
)
"""All registrations, by ascending key: that of each API with messages, in the module of its name."""


def build_routes(services: Services) -> Routes:
    """Return the routes of one broker, by API key: those that the release of Kafka has as which it answers."""
    release = services.release
    for each in APIS:
        route: Route | None = each.route(services)
        if release is not None and route is not None:
            route = release.route(each.key, route)
        if route is not None:
            services.routes[int(each.key)] = route
    return services.routes
