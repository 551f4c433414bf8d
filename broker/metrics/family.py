"""Metric families under construction: their series come from several brokers, and name APIs as Kafka's metrics do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.access import Access
from purgatorio.broker.layers.quotas.client_quotas import BrokerQuotas
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.purgatory import Purgatory
from purgatorio.broker.replica.fetching.fetch_session import FetchSessionCache
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.share.led_shares import LedShares
from purgatorio.broker.txn.overview import TransactionNumbers
from purgatorio.protocol.api_key import ApiKey


class CoordinatorsView(Protocol):
    """A broker's coordinators, as the metrics read them."""

    @property
    def transaction_numbers(self) -> TransactionNumbers:
        """How many transactions there are."""


class BrokerView(Protocol):
    """A broker, as the metrics read it: `purgatorio.broker.node.broker`, whose counters are of this room."""

    metrics: BrokerMetrics
    groups: Groups
    quotas: BrokerQuotas
    access: Access | None

    @property
    def purgatories(self) -> Iterable[Purgatory[Any]]:
        """Its purgatories."""

    @property
    def partitions(self) -> Iterable[Partition]:
        """Its replicas."""

    @property
    def image(self) -> ClusterImage:
        """The latest metadata image that it has seen."""

    @property
    def log_memory(self) -> MemoryBudget:
        """The memory that its logs use."""

    @property
    def request_memory_used_bytes(self) -> int:
        """Request bytes that its connections hold."""

    @property
    def fetch_sessions(self) -> FetchSessionCache:
        """Its fetch sessions."""

    @property
    def coordinators(self) -> CoordinatorsView:
        """Its coordinators."""

    @property
    def led_shares(self) -> LedShares:
        """Its share partitions, and the members that fetch from them."""

    def replica(self, tp: TopicPartition) -> Partition | None:
        """Return its replica of a partition, or None."""


class Family:
    """A metric family under construction. Its first label is the broker id."""

    def __init__(self, kind: type[CounterMetricFamily | GaugeMetricFamily], name: str, doc: str, *labels: str) -> None:
        self.metric = kind(name, doc, labels=("broker", *labels))

    def add(self, broker: BrokerView, value: float, *labels: str) -> None:
        """Add one series."""
        self.metric.add_metric((str(broker.metrics.broker_id), *labels), value)


def gauge(name: str, doc: str, *labels: str) -> Family:
    """Make a gauge."""
    return Family(GaugeMetricFamily, name, doc, *labels)


def counter(name: str, doc: str, *labels: str) -> Family:
    """Make a counter. The names of its series end in ``_total``, which `name` omits."""
    return Family(CounterMetricFamily, name, doc, *labels)


T = TypeVar("T")
Tables = Mapping[str, Sequence[tuple[Callable[[str, str], Family], str, str, Callable[[T], float]]]]
"""Families with one series of each broker, by the beginning of their names: gauge or counter, the rest of the name, the
help text, and what reads the value."""


def families(tables: Tables[T], read_of: Sequence[tuple[BrokerView, T]]) -> Iterator[Metric]:
    """Yield each family, with the values that it reads of what is beside each broker."""
    for prefix, rows in tables.items():
        for make, name, doc, read in rows:
            family = make(prefix + name, doc)
            for broker, seen in read_of:
                family.add(broker, read(seen))
            yield family.metric


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API: Fetch for FETCH, ListOffsets for LIST_OFFSETS."""
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return "Other"
