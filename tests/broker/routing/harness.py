"""Routes of a table, for tests of what stands before handlers."""

from __future__ import annotations

from collections.abc import Mapping

from purgatorio.broker.routing.request import Handler, Route, Routes, Versions


def routes_of(table: Mapping[int, Route]) -> Routes:
    """The routes of a broker that answers the APIs of a table."""
    versions = {
        key: Versions(each.min_version, each.max_version, each.min_answered_version) for key, each in table.items()
    }
    return Routes(versions, table.__getitem__)


def route(routes: Routes, key: int) -> Route:
    """The route of an API that is answered."""
    found = routes.find(key)
    assert found is not None
    return found


def handlers(routes: Routes) -> dict[int, Handler]:
    """What a request of each API meets now."""
    return {key: route(routes, key).handler for key in routes.versions}
