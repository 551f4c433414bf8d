"""Layers before handlers: their order, and that a broker without any has its own routes."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.routing.request import Handler, Route
from purgatorio.broker.routing.route_layers import Layer, RouteLayers


def handled(ctx: Any, request: list[str], reply: Any) -> None:
    request.append("handler")


def wrapping(name: str, *keys: int) -> Any:
    def wrap(key: int, route: Route) -> Handler:
        def before(ctx: Any, request: list[str], reply: Any) -> None:
            request.append(name)
            route.handler(ctx, request, reply)

        return before if key in keys else route.handler

    return wrap


def asked(routes: dict[int, Route], key: int) -> list[str]:
    seen: list[str] = []
    routes[key].handler(None, seen, None)  # type: ignore[arg-type]  # the handlers here use neither
    return seen


def routes_of(*keys: int) -> dict[int, Route]:
    return {key: Route(handled, 0, 3, lambda request, code: None) for key in keys}


def test_a_request_meets_faults_then_quotas_then_access_however_they_were_put() -> None:
    routes = routes_of(0, 1)
    layers = RouteLayers(routes)
    layers.put(Layer.FAULTS, wrapping("faults", 0, 1))
    layers.put(Layer.ACCESS, wrapping("access", 0))
    layers.put(Layer.QUOTAS, wrapping("quotas", 0))
    assert asked(routes, 0) == ["faults", "quotas", "access", "handler"]
    assert asked(routes, 1) == ["faults", "handler"]


def test_a_layer_put_again_replaces_itself_and_the_last_one_removed_leaves_the_routes_that_were() -> None:
    routes = routes_of(0)
    own = routes[0]
    layers = RouteLayers(routes)
    layers.put(Layer.QUOTAS, wrapping("old", 0))
    layers.put(Layer.QUOTAS, wrapping("new", 0))
    layers.put(Layer.FAULTS, wrapping("faults", 0))
    assert asked(routes, 0) == ["faults", "new", "handler"]
    layers.remove(Layer.FAULTS)
    layers.remove(Layer.QUOTAS)
    layers.remove(Layer.QUOTAS)
    assert routes[0] is own
