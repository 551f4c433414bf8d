"""Tests of the event loop's lag as Prometheus reads it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from purgatorio.admin.metrics.prometheus import LoopLagCollector
from purgatorio.broker.metrics.loop_lag import BUCKETS_MS, LoopLag
from purgatorio.purgatory.clock import ManualClock


def test_a_scrape_has_the_histogram_and_the_longest_lag() -> None:
    lag = LoopLag(ManualClock())
    lag.buckets = [3, *(1 for _ in BUCKETS_MS)]
    lag.total_ms, lag.longest_ms = 60.0, 22.0
    registry = CollectorRegistry()
    registry.register(LoopLagCollector(lag))
    values = {
        (sample.name, sample.labels.get("le")): sample.value for each in registry.collect() for sample in each.samples
    }
    assert values["purgatorio_event_loop_lag_ms_bucket", "1.0"] == 3
    assert values["purgatorio_event_loop_lag_ms_bucket", "10.0"] == 6
    assert values["purgatorio_event_loop_lag_ms_bucket", "+Inf"] == 3 + len(BUCKETS_MS)
    assert values["purgatorio_event_loop_lag_ms_count", None] == 3 + len(BUCKETS_MS)
    assert values["purgatorio_event_loop_lag_ms_sum", None] == 60
    assert values["purgatorio_event_loop_longest_lag_ms", None] == 22
