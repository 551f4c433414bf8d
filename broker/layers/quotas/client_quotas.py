"""The client quotas of one broker: from the image to what stands before the handlers.

Without any quota nothing stands there, and nothing is measured: requests cost what they did (KAFKA-5402, KAFKA-19282).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.layers.quotas.charging import (
    ChargedApi,
    ChargedFetch,
    ChargedProduce,
    ChargedShareFetch,
    ChargedUnlessBroker,
    ClientCharges,
    ExemptApi,
    Withheld,
)
from purgatorio.broker.layers.quotas.client_rates import ClientBuckets, ClientRates
from purgatorio.broker.layers.quotas.connection_rates import ConnectionRates
from purgatorio.broker.layers.quotas.mutations import (
    STRICT_VERSIONS,
    ChargedMetadata,
    ChargedMutations,
    KnownPartitions,
)
from purgatorio.broker.layers.quotas.naming import QuotaKey
from purgatorio.broker.layers.quotas.throttle import QuotaKind, ThrottleTimes
from purgatorio.broker.layers.quotas.throttled_channel import Muting
from purgatorio.broker.metadata.clients import ClientQuotas
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Handler, Route
from purgatorio.broker.routing.route_layers import Layer, RouteLayers
from purgatorio.broker.time.rates import Rate, RateWindow
from purgatorio.protocol.api_key import BROKERS_ONLY, ApiKey
from purgatorio.purgatory.clock import Clock

_UNCHARGED: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""Authentication is no request to handlers in Kafka."""
_ALSO_OF_BROKERS: Final = frozenset((ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN))


class QuotaWindows(NamedTuple):
    """The windows of time over which quotas are measured: those of clients, and of controller mutations."""

    clients: RateWindow = RateWindow()
    mutations: RateWindow = RateWindow()


class BrokerQuotas:
    """The client quotas of one broker.

    Args:
        layers: before the broker's handlers.
        purgatories: muted connections have one.
        clock: the broker's, which is a stopwatch of handlers, too.
        windows: over which time quotas are measured.
        topics: those of the cluster.
        withheld: see `Withheld`.
        knows_brokers: see `ClientCharges`.

    Attributes:
        charges: what the clients used.
        connections: how fast they may connect.
    """

    def __init__(
        self,
        layers: RouteLayers,
        purgatories: Purgatories,
        *,
        clock: Clock,
        windows: QuotaWindows,
        topics: KnownPartitions,
        withheld: Withheld,
        knows_brokers: bool,
    ) -> None:
        window = windows.clients
        most_ms = window.sample_ms
        self.charges = ClientCharges(
            produce=ClientRates(QuotaKind.PRODUCE, QuotaKey.PRODUCER_BYTE_RATE, window, clock),
            fetch=ClientRates(QuotaKind.FETCH, QuotaKey.CONSUMER_BYTE_RATE, window, clock),
            request=ClientRates(QuotaKind.REQUEST, QuotaKey.REQUEST_PERCENTAGE, window, clock, most_ms=most_ms),
            mutations=ClientBuckets(
                QuotaKind.CONTROLLER_MUTATION, QuotaKey.CONTROLLER_MUTATION_RATE, windows.mutations, clock
            ),
            exempt=Rate(window),
            muting=Muting(purgatories, clock),
            clock=clock,
            knows_brokers=knows_brokers,
        )
        self.connections = ConnectionRates(window, clock)
        self._window = window
        self._layers = layers
        self._topics = topics
        self._withheld = withheld
        self._quotas: ClientQuotas = {}

    @property
    def is_active(self) -> bool:
        """Whether any client has a quota."""
        charges = self.charges
        return any(each.is_active for each in (charges.produce, charges.fetch, charges.request, charges.mutations))

    def image_changed(self, image: ClusterImage) -> None:
        """Apply the quotas of a new image. Connections that are muted stay so, whatever the limits are now."""
        quotas = image.client_quotas
        if quotas is self._quotas:
            return
        self._quotas = quotas
        charges = self.charges
        for accounts in (charges.produce, charges.fetch, charges.request, charges.mutations):
            accounts.quotas_changed(quotas)
        self.connections.quotas_changed(quotas)
        if self.is_active:
            self._layers.put(Layer.QUOTAS, self._before)
        else:
            self._layers.remove(Layer.QUOTAS)
            charges.exempt, charges.times = Rate(self._window), ThrottleTimes()

    def _before(self, key: int, route: Route) -> Handler:
        """Return the handler of an API behind the quotas that apply; the handler itself if none does."""
        charges, handler = self.charges, route.handler
        if charges.mutations.is_active and key in STRICT_VERSIONS:
            return ChargedMutations(charges, ApiKey(key), route, self._topics)
        if charges.mutations.is_active and key == ApiKey.METADATA:
            return ChargedMetadata(charges, handler, self._topics)
        if charges.produce.is_active and key == ApiKey.PRODUCE:
            return ChargedProduce(charges, handler)
        if charges.fetch.is_active and key == ApiKey.FETCH:
            return ChargedFetch(charges, handler, self._withheld)
        if charges.fetch.is_active and key == ApiKey.SHARE_FETCH:
            return ChargedShareFetch(charges, handler)
        return self._timed(key, handler) if charges.request.is_active and key not in _UNCHARGED else handler

    def _timed(self, key: int, handler: Handler) -> Handler:
        """Return the handler of an API behind one that charges the time of its requests."""
        if key == ApiKey.PRODUCE:
            return ChargedProduce(self.charges, handler)
        if key == ApiKey.FETCH:
            return ChargedFetch(self.charges, handler, self._withheld)
        if key == ApiKey.SHARE_FETCH:
            return ChargedShareFetch(self.charges, handler)
        if key in BROKERS_ONLY:
            return ExemptApi(self.charges, handler)
        if key in _ALSO_OF_BROKERS:
            return ChargedUnlessBroker(self.charges, handler)
        return ChargedApi(self.charges, handler)
