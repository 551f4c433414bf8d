"""What stands before the handlers of a broker, by its settings."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.sources import ConfigError, load_cluster_config
from purgatorio.broker.node.access_control import control_access, super_users
from purgatorio.broker.routing.request import Route, Routes
from purgatorio.broker.routing.route_layers import RouteLayers
from purgatorio.purgatory.clock import ManualClock
from tests.broker.routing.harness import handlers, routes_of


def routes_with(**settings: Any) -> tuple[Routes, Any]:
    table = {key: Route(lambda *_: None, 0, 18, lambda *_: None) for key in range(76)}
    layers = RouteLayers(routes_of(table))
    nothing: Any = None  # is asked
    access = control_access(
        layers,
        BrokerConfig(**settings),
        clock=ManualClock(),
        store=nothing,
        sessions=nothing,
        share_sessions=nothing,
    )
    return layers.routes, access


def test_a_broker_without_authorizer_and_security_has_nothing_before_its_handlers() -> None:
    routes, access = routes_with()
    assert access is None
    assert len(set(handlers(routes).values())) == len(routes.versions), "each is its own"


def test_super_users_are_separated_by_semicolons_since_names_have_commas() -> None:
    assert super_users(" User:a;User:CN=b,C=DE; ") == ["User:a", "User:CN=b,C=DE"]
    assert super_users("") == []


@pytest.mark.parametrize(
    "settings",
    [{"super.users": "admin"}, {"super.users": "User:"}, {"authorizer.class.name": "kafka.security.authorizer.X"}],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        load_cluster_config(settings=settings)


@pytest.mark.parametrize("name", ["StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"])
def test_kafkas_name_of_the_authorizer_is_understood(name: str) -> None:
    config = load_cluster_config(settings={"authorizer.class.name": name, "super.users": "User:a;User:CN=b,C=DE"})
    assert config.broker.authorizer_class_name == name
