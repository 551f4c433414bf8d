"""The tier on the page: strips and reads, at a bounded cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.operations.reading import tier_state
from purgatorio.admin.operations.reading.tier_state import merged_tier, read_tier
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.tier.store import NotThere, Unavailable
from tests.broker.replica.harness import Harness, topic
from tests.broker.replica.tiered import ORDERS, TIERED, Tiered, record_batch, tiered


def read(*brokers: Tiered) -> dict[str, Any]:
    tier = read_tier([as_broker(each, number) for number, each in enumerate(brokers, 1)], brokers[0].image)
    assert tier is not None
    return tier


def as_broker(harness: Harness, broker_id: int = 1) -> Any:
    return SimpleNamespace(broker_id=broker_id, tiering=harness.replicas.tiering)


def names(tier: dict[str, Any]) -> list[str]:
    return [f"{row['topic']}-{row['partition']}" for row in tier["strips"]]


def test_brokers_without_a_tier_show_none() -> None:
    assert read_tier([as_broker(Harness())], ClusterImage(0, "test")) is None
    assert merged_tier([None, None]) is None


async def test_the_strip_of_each_partition_that_is_led_here() -> None:
    async with tiered() as broker:
        tier = read(broker)
        (strip,) = tier["strips"]
        assert [(run["start"], run["end"], run["kind"], run["segments"]) for run in strip["runs"]] == [
            (0, 4, "remote", 2),
            (4, 6, "both", 1),
            (6, 7, "local", 1),
        ]
        assert (strip["leader"], strip["log_start_offset"], strip["local_start_offset"]) == (1, 0, 4)
        assert (strip["uncopied_bytes"], strip["lag_segments"], strip["refused"]) == (
            strip["runs"][2]["bytes"],
            0,
            False,
        )
        assert (tier["location"], tier["reads"], tier["strip_count"]) == ("the memory store", [], 1)
        assert tier["brokers"][0]["trouble"] == ""
        broker.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1, replicas=(1, 2), **TIERED))
        assert read(broker)["strips"] == [], "its leader shows it"


async def test_reads_under_way_and_how_they_stand() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        broker.fetch((ORDERS, 0))
        await broker.turns(340)
        (row,) = read(broker)["reads"]
        assert (row["broker"], row["of"], row["start"], row["end"]) == (1, "orders-0", 0, 2)
        assert row["says"] == "340 ms"
        broker.advance_ms(1_000)
        (row,) = read(broker)["reads"]
        assert row["says"] == "1.3 s"
        broker.store.troubles["get"] = [Unavailable("503")]
        broker.fetch((ORDERS, 2))
        await broker.turns()
        assert [each["says"] for each in read(broker)["reads"]] == ["1.3 s", "0 ms, first try (503)"]


async def test_a_store_that_does_not_work_and_what_is_damaged() -> None:
    async with tiered() as broker:
        broker.fill(4)
        broker.store.troubles["put"] = [Unavailable("503")] * 9
        await broker.turns()
        broker.tiering.trouble, broker.tiering.trouble_since_ms = "503", broker.clock.now_ms()
        broker.store.troubles["get"] = [NotThere("no such object")]
        broker.fetch((ORDERS, 0))
        await broker.turns()
        tier = read(broker)
        assert (tier["brokers"][0]["trouble"], tier["brokers"][0]["away_ms"]) == ("503", 0)
        assert tier["strips"][0]["runs"][0]["kind"] == "damaged"
        assert tier["strips"][0]["runs"][0]["trouble"] == "no such object"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_state, "STRIPS", 2)
    monkeypatch.setattr(tier_state, "RUNS", 2)


@pytest.mark.usefixtures("few")
async def test_of_many_partitions_those_with_something_the_matter_come_first() -> None:
    async with tiered() as broker:
        others = [topic(name, replicas=(1,), **TIERED) for name in ("bills", "zoo")]
        broker.set_topics(topic(replicas=(1,), **TIERED), *others)
        tier = read(broker)
        assert (names(tier), tier["strip_count"]) == (["bills-0", "orders-0"], 3)
        assert tier["strips"][1]["further_count"] == 1
        assert [run["kind"] for run in tier["strips"][1]["runs"]] == ["both", "local"]
        broker.tiering.refused(broker.partition().tp._replace(topic="zoo"))
        tier = read(broker)
        assert names(tier) == ["zoo-0", "bills-0"]
        assert tier["strips"][0]["refused"]


@pytest.mark.usefixtures("few")
async def test_the_tiers_of_several_processes_are_one() -> None:
    async with tiered() as broker:
        mine, others = read(broker), read(broker)
        others["brokers"][0]["id"] = 2
        others["strips"][0] |= {"topic": "bills", "leader": 2}
        tier = merged_tier([mine, None, others])
        assert tier is not None
        assert (names(tier), tier["strip_count"]) == (["bills-0", "orders-0"], 2)
        assert [row["id"] for row in tier["brokers"]] == [1, 2]


async def test_a_look_finds_anew_what_some_segments_are_and_the_next_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_state, "SEGMENTS", 3)
    async with tiered() as broker:
        other = broker.partition().tp._replace(topic="bills")
        broker.set_topics(topic(replicas=(1,), **TIERED), topic("bills", replicas=(1,), **TIERED))
        for _ in range(7):
            broker.produce(other, acks=1, records=record_batch())
        await broker.copy()

        def found() -> list[bool]:
            return [broker.tiering.remote_of(broker.replicas.partitions[tp]).runs is not None for tp in (other, ORDERS)]

        strips = read(broker)["strips"]
        assert [strip["runs"][0]["kind"] for strip in strips] == ["remote", "remote"]
        assert found() == [True, False]
        read(broker)
        assert found() == [True, True]
