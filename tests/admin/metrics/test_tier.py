"""The series of the tier, as a scrape sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.metrics import tier
from purgatorio.admin.metrics.tier import tier_steps
from purgatorio.broker.tier.store import NotThere
from tests.broker.replica.tiered import ORDERS, Tiered, tiered

TOPIC = "kafka_server_brokertopicmetrics_"


def scraped(broker: Tiered) -> dict[str, float]:
    """Return the samples; those of topics begin with the name of the topic."""
    seen: Any = SimpleNamespace(
        broker_id=1,
        metrics=SimpleNamespace(broker_id=1),
        tiering=broker.tiering,
        image=broker.image,
        replicas=broker.replicas,
    )
    found = {}
    for metric in tier_steps([seen]):
        for sample in metric.samples if metric is not None else ():
            topic, name = sample.labels.get("topic", ""), sample.name
            found[f"{topic} {name.removeprefix(TOPIC)}" if topic else name] = sample.value
    return found


def of_orders(read: dict[str, float], *names: str) -> list[float]:
    return [read[f"orders {name}"] for name in names]


def test_a_broker_without_a_tier_has_no_series() -> None:
    broker: Any = SimpleNamespace(tiering=None)
    assert list(tier_steps([broker])) == []


async def test_copies_and_reads_are_counted_under_kafkas_names() -> None:
    async with tiered() as broker:
        read = scraped(broker)
        size_bytes = broker.tiering.remote_of(broker.partition()).segments.size_bytes
        copies = ("remotecopybytes_total", "remotecopyrequests_total", "remotecopyerrors_total")
        assert of_orders(read, *copies) == [size_bytes, 3, 0]
        broker.store.troubles["get"] = [NotThere("gone")]
        for _ in range(2):
            broker.fetch((ORDERS, 0), partition_max_bytes=1)
            await broker.turns(7)
        read = scraped(broker)
        assert of_orders(read, "remotefetchrequests_total", "remotefetcherrors_total") == [2, 1]
        (fetched_bytes,) = of_orders(read, "remotefetchbytes_total")
        assert 0 < fetched_bytes < size_bytes
        assert read["kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems_count"] == 2
        assert read["purgatorio_tier_cached_bytes"] == fetched_bytes
        assert read["purgatorio_tier_fetch_byte_rate"] > 0


async def test_lags_and_sizes_are_those_of_leaders() -> None:
    copy_lag = ("remotecopylagbytes", "remotecopylagsegments")
    async with tiered(copies=False) as broker:
        broker.fill()
        size_bytes, count = broker.partition().log.copy_lag
        read = scraped(broker)
        assert of_orders(read, *copy_lag, "remotelogmetadatacount") == [size_bytes, count, 0]
        await broker.copy()
        read = scraped(broker)
        assert of_orders(read, *copy_lag, "remotelogmetadatacount", "remotelogsizebytes") == [0, 0, count, size_bytes]
        remote = broker.tiering.remote_of(broker.partition())
        first = next(iter(remote.segments))
        remote.doomed = {first.name: None}
        read = scraped(broker)
        assert of_orders(read, "remotedeletelagbytes", "remotedeletelagsegments") == [first.size_bytes, 1]


async def test_readers_and_expired_waits_are_seen() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        broker.fetch((ORDERS, 0))
        await broker.turns()
        read = scraped(broker)
        pool = "kafka_log_remote_remotestoragethreadpool_remotelogreader"
        assert (read[f"{pool}taskqueuesize"], read[f"{pool}avgidlepercent"]) == (0, 0.5)
        assert read["kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidlepercent"] == 1
        await broker.turns(500)
        assert scraped(broker)["kafka_server_delayedremotefetchmetrics_expires_total"] == 1
        assert scraped(broker)["kafka_server_delayedremotelistoffsetsmetrics_expires_total"] == 0


async def test_a_deleted_topic_has_no_counts_and_topics_beyond_the_bound_share_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with tiered() as broker:
        broker.tiering.traffic.of_topic("ff" * 16).copy_bytes = 1
        assert {key.partition(" ")[0] for key in scraped(broker) if " " in key} == {"orders"}
        monkeypatch.setattr(tier, "MAX_TOPICS", 0)
        monkeypatch.setattr(tier, "STEP", 1)
        read = scraped(broker)
        assert (read["(others) remotecopyrequests_total"], read["(others) remotelogmetadatacount"]) == (3, 3)
