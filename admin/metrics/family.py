"""Metric families under construction: their series come from several brokers, and name APIs as Kafka's metrics do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from purgatorio.broker.node.broker import Broker
from purgatorio.protocol.api_key import ApiKey


class Family:
    """A metric family under construction. Its first label is the broker id."""

    def __init__(self, kind: type[CounterMetricFamily | GaugeMetricFamily], name: str, doc: str, *labels: str) -> None:
        self.metric = kind(name, doc, labels=("broker", *labels))

    def add(self, broker: Broker, value: float, *labels: str) -> None:
        """Add one series."""
        self.metric.add_metric((str(broker.metrics.broker_id), *labels), value)


def gauge(name: str, doc: str, *labels: str) -> Family:
    """Make a gauge with these names of labels."""
    return Family(GaugeMetricFamily, name, doc, *labels)


def counter(name: str, doc: str, *labels: str) -> Family:
    """Make a counter. The names of its series end in ``_total``, which `name` omits."""
    return Family(CounterMetricFamily, name, doc, *labels)


T = TypeVar("T")
Tables = Mapping[str, Sequence[tuple[Callable[[str, str], Family], str, str, Callable[[T], float]]]]
"""Families with one series of each broker, by the beginning of their names: gauge or counter, the rest of the name, the
help text, and what reads the value."""


def families(tables: Tables[T], read_of: Sequence[tuple[Broker, T]]) -> Iterator[Metric]:
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
