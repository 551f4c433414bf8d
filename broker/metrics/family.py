"""A metric family under construction: its series come from several brokers, and name APIs as Kafka's metrics do."""

from __future__ import annotations

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from purgatorio.broker.metrics.views import BrokerView
from purgatorio.protocol.api_key import ApiKey


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


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API: Fetch for FETCH, ListOffsets for LIST_OFFSETS."""
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return "Other"
