"""Layers between a broker's connections and its handlers, in a fixed order, each only while it is needed.

A layer without work is absent, and costs a request nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import replace

from purgatorio.broker.routing.request import Handler, Route, Routes

Wrap = Callable[[int, Route], Handler]
"""Returns the handler that stands before that of a route, given its API key; or the route's own."""


class Layer(enum.IntEnum):
    """The layers, innermost first: a request passes the last one first."""

    ACCESS = 0
    """Whether the principal may (ACLs)."""
    LARGE_REQUESTS = 1
    """Whether the request is worked on in parts, since it is long."""
    QUOTAS = 2
    """The cost of the request, and whether its connection is muted for it; refused requests cost, too."""
    FAULTS = 3
    """Fault rules, and the log of requests."""


class RouteLayers:
    """The routes of one broker with their present layers.

    Args:
        own: the broker's own routes.

    Attributes:
        routes: the same with the layers, which its listeners ask for each request.
    """

    def __init__(self, own: Routes) -> None:
        self._own = own
        self._layers: dict[Layer, Wrap] = {}
        self.routes = Routes(own.versions, self._layered)

    def put(self, layer: Layer, wrap: Wrap) -> None:
        """Put a layer before all handlers, in place of the one that was there."""
        self._layers[layer] = wrap
        self.routes.make_anew()

    def remove(self, layer: Layer) -> None:
        """Take a layer away, if it is there."""
        if self._layers.pop(layer, None) is not None:
            self.routes.make_anew()

    def _layered(self, key: int) -> Route:
        route = self._own.find(key)
        assert route is not None, "it is one of the broker's own"
        for layer in Layer:
            if layer in self._layers:
                handler = self._layers[layer](key, route)
                if handler is not route.handler:
                    route = replace(route, handler=handler)
        return route
