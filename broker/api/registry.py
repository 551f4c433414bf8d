"""Registration of APIs: each module in `broker.api` registers its API once, as `API`, with its versions.

`broker.api.routes` finds the modules by the names of the APIs in `protocol.api`. The response of ApiVersions and the
table of APIs in the docs are derived from these registrations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.features import FeatureLevels
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.access import Guard
from purgatorio.broker.metadata.releases import Release
from purgatorio.broker.replica.fetching.fetch_session import FetchSessionCache
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.request import Handler, Reply, RequestContext, Route, Versions
from purgatorio.broker.share.led_shares import LedShares
from purgatorio.broker.share.state.share_states import ShareStates
from purgatorio.broker.txn.marker_writer import MarkerWriter
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.late import dataclass
from purgatorio.protocol.api_key import CONSUMER_APIS, SHARE_APIS, ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.parts import failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of one broker that handlers use; `ApiHandler.bind` picks those of one handler.

    Attributes:
        admin: reads and changes the cluster's metadata.
        replicas: this broker's replicas.
        fetch_sessions: this broker's fetch sessions.
        groups: the groups that this broker coordinates.
        markers: writes end markers of transactions to this broker's partitions.
        transactions: the transactional ids that this broker coordinates.
        shares: the states of share partitions that this broker coordinates.
        led_shares: the share partitions that this broker leads.
        share_version: the level of share.version; 0: share groups are switched off.
        fetch_max_bytes: the most bytes that a fetch response holds, even if the request allows more
            (fetch.max.bytes).
        release: the release of Kafka as which this broker answers; None: it answers all that it knows.
        versions: the APIs that this broker answers, by key, from `versions_as`; ApiVersions answers with them.
    """

    admin: AdminContext
    replicas: ReplicaManager
    fetch_sessions: FetchSessionCache
    groups: Groups
    markers: MarkerWriter
    transactions: Transactions
    shares: ShareStates
    led_shares: LedShares
    share_version: int
    fetch_max_bytes: int
    versions: Mapping[int, Versions]
    release: Release | None = None

    @property
    def levels(self) -> FeatureLevels:
        """The levels of the cluster's features."""
        return FeatureLevels(self.transactions.config.version, self.share_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiHandler:
    """The registration of one API.

    Attributes:
        key: the API key; `protocol.api.APIS` has the messages.
        min_version: the lowest version that ApiVersions advertises.
        max_version: the highest version that is advertised and answered.
        needs: the ACL check before the handler, if there is an authorizer.
        bind: returns the handler for the services of one broker; called once per broker, for the first request.
        error_response: returns the response for a request that failed as a whole; None closes the connection. By
            default the response follows from the declarations of its messages; see `purgatorio.protocol.parts.failed`.
        min_answered_version: the lowest version that is answered, if it is above `min_version`.
    """

    key: ApiKey
    min_version: int
    max_version: int
    needs: Guard
    bind: Callable[[Services], Handler]
    error_response: Callable[[Any, ErrorCode], Any | None] | None = None
    min_answered_version: int = 0

    @property
    def versions(self) -> Versions:
        """The versions that are advertised and answered, unless brokers answer as an earlier release."""
        return Versions(self.min_version, self.max_version, self.min_answered_version)

    def route(self, services: Services) -> Route:
        """Return the route of this API for one broker."""
        is_off = self.key in SHARE_APIS and not services.share_version
        is_off = is_off or (self.key in CONSUMER_APIS and not services.groups.config.serves_consumers)
        handler = self._refuse if is_off else self.bind(services)
        answered = services.versions[self.key]
        return Route(handler, answered.lowest, answered.highest, self.failed, answered.lowest_answered)

    def _refuse(self, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Answer as a broker on which share groups, or groups of the consumer protocol, are switched off."""
        response = self.failed(request, ErrorCode.UNSUPPORTED_VERSION)
        reply.close("such groups are switched off") if response is None else reply(response)

    def failed(self, request: Any, error_code: ErrorCode) -> Any | None:
        """Return the response for a request that failed as a whole, or None to close the connection."""
        if self.error_response is not None:
            return self.error_response(request, error_code)
        return failed(self.key, request, error_code)

    @property
    def answered_versions(self) -> range:
        """The versions that are answered, which begin at `min_answered_version` if that is higher."""
        return range(max(self.min_version, self.min_answered_version), self.max_version + 1)
