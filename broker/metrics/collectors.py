"""Collectors for Prometheus of what a process has once: the lag of its event loop, and the fault rules.

Apart from `loop_lag`, which measures also where nothing is scraped.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatorio.broker.layers.faults import Faults
from purgatorio.broker.metrics.loop_lag import BUCKETS_MS, LoopLag


class LoopLagCollector(Collector):
    """Reads the lag of a process's event loop at each scrape.

    Args:
        lag: the measure.
    """

    def __init__(self, lag: LoopLag) -> None:
        self._lag = lag

    def collect(self) -> Iterable[Metric]:
        """Yield the histogram, and the longest lag."""
        lag = self._lag
        histogram = HistogramMetricFamily(
            "purgatorio_event_loop_lag_ms",
            "Milliseconds that a request would have waited for the event loop, each 5 ms.",
        )
        bounds = [*(str(float(bound)) for bound in BUCKETS_MS), "+Inf"]
        histogram.add_metric((), list(zip(bounds, accumulate(lag.buckets), strict=True)), lag.total_ms)
        yield histogram
        yield GaugeMetricFamily(
            "purgatorio_event_loop_longest_lag_ms", "The longest of these waits since the start.", lag.longest_ms
        )


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
