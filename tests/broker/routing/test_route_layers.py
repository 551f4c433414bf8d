"""Layers before handlers: their order, and that a broker without any has its own routes."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.routing.request import Handler, Route, Routes
from purgatorio.broker.routing.route_layers import Layer, RouteLayers
from tests.broker.routing.harness import route, routes_of


def handled(ctx: Any, request: list[str], reply: Any) -> None:
    request.append("handler")


def wrapping(name: str, *keys: int) -> Any:
    def wrap(key: int, route: Route) -> Handler:
        def before(ctx: Any, request: list[str], reply: Any) -> None:
            request.append(name)
            route.handler(ctx, request, reply)

        return before if key in keys else route.handler

    return wrap


def asked(layers: RouteLayers, key: int) -> list[str]:
    seen: list[str] = []
    route(layers.routes, key).handler(None, seen, None)  # type: ignore[arg-type]  # the handlers here use neither
    return seen


def table_of(*keys: int) -> dict[int, Route]:
    return {key: Route(handled, 0, 3, lambda request, code: None) for key in keys}


def test_a_request_meets_faults_then_quotas_then_access_however_they_were_put() -> None:
    layers = RouteLayers(routes_of(table_of(0, 1)))
    layers.put(Layer.FAULTS, wrapping("faults", 0, 1))
    layers.put(Layer.ACCESS, wrapping("access", 0))
    layers.put(Layer.QUOTAS, wrapping("quotas", 0))
    assert asked(layers, 0) == ["faults", "quotas", "access", "handler"]
    assert asked(layers, 1) == ["faults", "handler"]


def test_a_layer_put_again_replaces_itself_and_the_last_one_removed_leaves_the_routes_that_were() -> None:
    own = table_of(0)
    layers = RouteLayers(routes_of(own))
    layers.put(Layer.QUOTAS, wrapping("old", 0))
    layers.put(Layer.QUOTAS, wrapping("new", 0))
    layers.put(Layer.FAULTS, wrapping("faults", 0))
    assert asked(layers, 0) == ["faults", "new", "handler"]
    layers.remove(Layer.FAULTS)
    layers.remove(Layer.QUOTAS)
    layers.remove(Layer.QUOTAS)
    assert route(layers.routes, 0) is own[0]


def test_a_handler_is_bound_and_a_layer_asked_when_the_first_request_comes() -> None:
    """A cluster of a test uses few APIs; sixty handlers and their layers took a third of its start."""
    made: list[str] = []

    def wrap(key: int, own: Route) -> Handler:
        made.append(f"layer {key}")
        return own.handler

    table = table_of(0, 1)

    def make(key: int) -> Route:
        made.append(f"route {key}")
        return table[key]

    layers = RouteLayers(Routes(routes_of(table).versions, make))
    layers.put(Layer.FAULTS, wrap)
    assert made == []
    asked(layers, 1)
    asked(layers, 1)
    assert made == ["route 1", "layer 1"]
    layers.put(Layer.FAULTS, wrap)
    asked(layers, 1)
    assert made == ["route 1", "layer 1", "layer 1"]
    assert layers.routes.find(2) is None
