"""The list of APIs that brokers answer, and the routes of one broker made from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final

from purgatorio.broker.api.registry import ApiHandler, Services
from purgatorio.broker.metadata.releases import release
from purgatorio.broker.routing.request import Routes, Versions
from purgatorio.protocol import api
from purgatorio.protocol.api_key import ApiKey

APIS: Final[tuple[ApiHandler, ...]] = tuple(
    import_module(f"purgatorio.broker.api.{ApiKey(key).name.lower()}").API for key in sorted(api.APIS)
)
"""All registrations, by ascending key: that of each API with messages, in the module of its name."""
_BY_KEY: Final[Mapping[int, ApiHandler]] = {int(each.key): each for each in APIS}


@cache
def versions_as(name: str) -> Mapping[int, Versions]:
    """Return the versions of the APIs that brokers answer as a release of Kafka, by API key.

    Raises:
        KeyError: there is no such release.
    """
    known = release(name)
    answered = {
        key: each.versions if known is None else known.narrowed(key, each.versions) for key, each in _BY_KEY.items()
    }
    return MappingProxyType({key: each for key, each in answered.items() if each is not None})


def own_routes(services: Services) -> Routes:
    """Return the routes of one broker, before which nothing stands."""
    return Routes(services.versions, lambda key: _BY_KEY[key].route(services))
