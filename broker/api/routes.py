"""The list of APIs that brokers answer, and the routes of one broker made from it."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from purgatorio.broker.api.registry import ApiHandler, Services
from purgatorio.broker.routing.request import Routes
from purgatorio.protocol import api
from purgatorio.protocol.api_key import ApiKey

APIS: Final[tuple[ApiHandler, ...]] = tuple(
    import_module(f"purgatorio.broker.api.{ApiKey(key).name.lower()}").API for key in sorted(api.APIS)
)
"""All registrations, by ascending key: that of each API with messages, in the module of its name."""


def build_routes(services: Services) -> Routes:
    """Return the routes of one broker, by API key."""
    services.routes.update((int(each.key), each.route(services)) for each in APIS)
    return services.routes
