"""The fault rules for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatorio.broker.layers.faults import Faults


class FaultsCollector(Collector):
    """Reads the counts of the fault rules at each scrape; a rule that is removed has none.

    Args:
        faults: the cluster's.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def collect(self) -> Iterable[Metric]:
        """Yield the requests that each rule matched, acted on, and holds; nothing without rules."""
        rules = self._faults.rules
        if not rules:
            return
        labels = ("rule", "name")
        matched = CounterMetricFamily("purgatorio_fault_matched", "Requests that a fault rule matched.", labels=labels)
        fired = CounterMetricFamily("purgatorio_fault_fired", "Requests that a fault rule acted on.", labels=labels)
        held = GaugeMetricFamily("purgatorio_fault_held", "Requests that a fault rule holds now.", labels=labels)
        for live in rules:
            values = (str(live.id), live.name)
            matched.add_metric(values, live.matched)
            fired.add_metric(values, live.fired)
            held.add_metric(values, live.held)
        yield from (matched, fired, held)
