"""The lag of the event loop for Prometheus; apart from `loop_lag`, which measures also where nothing is scraped."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

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
