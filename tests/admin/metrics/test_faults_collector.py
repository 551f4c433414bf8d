"""Fault rules for Prometheus."""

from __future__ import annotations

from purgatorio.admin.metrics.prometheus import FaultsCollector
from purgatorio.broker.layers.faults import FaultRegistry, parse_rule
from purgatorio.purgatory.clock import ManualClock


def test_each_rule_has_its_counts_by_number_and_name() -> None:
    faults = FaultRegistry(ManualClock())
    live = faults.add(parse_rule({"api": "Fetch", "hold": True, "name": "slow reader"}))
    live.matched, live.fired = 3, 2
    samples = {
        sample.name: (sample.labels, sample.value)
        for metric in FaultsCollector(faults).collect()
        for sample in metric.samples
    }
    labels = {"rule": "1", "name": "slow reader"}
    assert samples == {
        "purgatorio_fault_matched_total": (labels, 3),
        "purgatorio_fault_fired_total": (labels, 2),
        "purgatorio_fault_held": (labels, 0),
    }


def test_without_rules_there_are_no_series() -> None:
    assert list(FaultsCollector(FaultRegistry(ManualClock())).collect()) == []
