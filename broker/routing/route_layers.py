"""What stands between a broker's connections and its handlers, in a fixed order, and only while it is needed.

A layer that has nothing to do is not there, and costs a request nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from purgatorio.broker.routing.request import Handler, Route

Wrap = Callable[[int, Route], Handler]
"""Returns the handler that stands before that of a route, given its API key; or the route's own."""


class Layer(enum.IntEnum):
    """What may stand before handlers, innermost first: a request meets the last one first."""

    ACCESS = 0
    """Whether the principal may (ACLs)."""
    PARTS = 1
    """Whether the request is worked on in parts, since it is long."""
    QUOTAS = 2
    """What the request costs, and whether its connection is muted for it; refused requests cost, too."""
    FAULTS = 3
    """What a test does to it, and the log of requests."""


class RouteLayers:
    """The routes of one broker, with the layers that stand before its handlers now.

    Args:
        routes: the broker's own, which its listeners ask for each request; handlers in it are replaced.
    """

    def __init__(self, routes: dict[int, Route]) -> None:
        self._routes = routes
        self._own = dict(routes)
        self._layers: dict[Layer, Wrap] = {}

    def put(self, layer: Layer, wrap: Wrap) -> None:
        """Put a layer before all handlers, in place of the one that was there."""
        self._layers[layer] = wrap
        self._rebuild()

    def remove(self, layer: Layer) -> None:
        """Take a layer away, if it is there."""
        if self._layers.pop(layer, None) is not None:
            self._rebuild()

    def _rebuild(self) -> None:
        wraps = [self._layers[layer] for layer in Layer if layer in self._layers]
        for key, route in self._own.items():
            for wrap in wraps:
                handler = wrap(key, route)
                if handler is not route.handler:
                    route = _with_handler(route, handler)
            self._routes[key] = route


def _with_handler(route: Route, handler: Handler) -> Route:
    """Return the route with another handler.

    In a third of the time of `dataclasses.replace`: each cluster of a test starts with all of its routes logged.
    """
    return Route(handler, route.min_version, route.max_version, route.error_response, route.min_answered_version)
