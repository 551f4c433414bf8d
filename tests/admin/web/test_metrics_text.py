from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_text
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from purgatorio.admin.web.metrics_text import joined_metrics


def registry(broker: int) -> CollectorRegistry:
    own = CollectorRegistry()
    Gauge("purgatory_size", "Waiting.", ["broker", "name"], registry=own).labels(str(broker), 'a,broker="x').set(broker)
    Gauge("memory_bytes", "Memory.", registry=own).set(10 * broker)
    Counter("collections", "Garbage.", ["generation"], registry=own).labels("0").inc()
    return own


def test_each_family_is_told_once_with_the_samples_of_all_processes() -> None:
    text = joined_metrics({f"broker {each}": generate_latest(registry(each)).decode() for each in (1, 2)})
    families = {family.name: family for family in parse(text)}
    assert [(sample.labels["broker"], sample.value) for sample in families["purgatory_size"].samples] == [
        ("1", 1.0),
        ("2", 2.0),
    ]
    assert [(sample.labels, sample.value) for sample in families["memory_bytes"].samples] == [
        ({"process": "broker 1"}, 10.0),
        ({"process": "broker 2"}, 20.0),
    ]
    counted = [sample.labels for sample in families["collections"].samples]
    assert counted == [{"process": f"broker {each}", "generation": "0"} for each in (1, 2)]
    assert text.count("# HELP memory_bytes") == text.count("# TYPE memory_bytes") == 1


def test_openmetrics_ends_once() -> None:
    text = joined_metrics({f"broker {each}": open_text(registry(each)).decode() for each in (1, 2)})
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1
    assert {family.name for family in parse_open(text)} >= {"purgatory_size", "memory_bytes", "collections"}
