"""How an API is registered: once, as `API` beside its handler, with its versions.

`broker.api.routes` lists the modules; the table that clients get from ApiVersions, and the one in the README, are
derived from these registrations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.request import Handler, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the handlers of one broker work with; each takes what it needs (see `ApiHandler.bind`).

    Attributes:
        admin: reads and changes the cluster's metadata.
        replicas: this broker's replicas.
        fetch_max_bytes: the most that an answer to a fetch holds, whatever the request allows (fetch.max.bytes).
        routes: the table that is being made of all registrations; ApiVersions answers with it.
    """

    admin: AdminContext
    replicas: ReplicaManager
    fetch_max_bytes: int
    routes: dict[int, Route] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiHandler:
    """One API that brokers answer, and how.

    Attributes:
        key: its key; `protocol.api.APIS` has its messages.
        min_version, max_version: the versions that are advertised, and answered unless `min_answered_version` is above.
        bind: gives the handler what it works with, once for each broker.
        error_response: makes the response that says that the whole request failed; None: the connection is closed.
        min_answered_version: the lowest version that is answered, where that is above the advertised one.
    """

    key: ApiKey
    min_version: int
    max_version: int
    bind: Callable[[Services], Handler]
    error_response: Callable[[Any, ErrorCode], Any | None]
    min_answered_version: int = 0

    def route(self, services: Services) -> Route:
        """How one broker answers it."""
        return Route(
            self.bind(services), self.min_version, self.max_version, self.error_response, self.min_answered_version
        )

    @property
    def answered_versions(self) -> range:
        """The versions that are answered."""
        return range(max(self.min_version, self.min_answered_version), self.max_version + 1)
