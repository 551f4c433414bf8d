"""The facts of share groups, and the rules about their members that get nothing."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.admin.operations.reading.why.conclusions import conclude
from purgatorio.admin.operations.reading.why.known import Facts
from purgatorio.admin.operations.why import Facts as ReadFacts
from purgatorio.testing import cluster
from tests.admin.operations.reading.why.documents import facts, group, member, partition


def said(document: dict[str, Any]) -> list[str]:
    return [each.says for each in conclude(Facts(document))]


def share(start: int, **more: Any) -> dict[str, Any]:
    place = {"group": "mailers", "topic": "orders", "partition": 0, "reset": "latest"}
    return {**place, "start_offset": start, "next_offset": start, "in_flight": 0, "holders": [], **more}


def test_a_share_group_that_began_at_the_end_has_missed_the_records_before() -> None:
    document = facts(
        partitions=[partition(end=3)],
        groups=[group("mailers", member("one"), type="share")],
        shares=[share(3)],
        acquired_by=[],
    )
    assert said(document) == [
        "mailers reads orders-0 from offset 3, the end: it began after the 3 records, and "
        "share.auto.offset.reset=latest; set the group's config to earliest"
    ]
    document["acquired_by"] = ["one"]
    assert said(document) == [], "its member was given records"
    document["acquired_by"] = None
    assert said(document) == [], "that is not known"


def test_a_member_waits_for_records_that_another_one_has() -> None:
    holders = [{"member_id": "slow-1f", "count": 5, "lock_left_ms": 23_000}]
    document = facts(
        partitions=[partition(end=5)],
        groups=[group("mailers", member("slow"), member("fast"), type="share")],
        shares=[share(0, next_offset=5, in_flight=5, holders=holders)],
        parked=[{"purgatory": "ShareFetch", "client": "fast", "group": "mailers", "causes": [], "waited_ms": 1}],
    )
    assert said(document) == [
        "fast gets no records of orders-0: slow has 5, until they are acknowledged, or their locks run out in 23 s"
    ]


@pytest.mark.clients
def test_facts_have_what_a_share_group_reads_and_who_has_the_records() -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    if not hasattr(confluent_kafka, "ShareConsumer"):
        pytest.skip("this confluent-kafka has no share consumer")
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        kafka.produce("orders", "tea")
        settings = kafka.client_config("confluent") | {"group.id": "mailers", "client.id": "one"}
        consumer = confluent_kafka.ShareConsumer(settings)
        consumer.subscribe(["orders"])
        waiting = kafka.until_parked(api="ShareFetch")
        for _ in range(50):
            consumer.poll(0.1)
            if kafka.parked(api="ShareFetch"):
                break
        waiting.wait()
        found = kafka.do(ReadFacts())
        text = kafka.report()
        consumer.close()
    (row,) = found["shares"]
    assert (row["group"], row["topic"], row["next_offset"], row["reset"]) == ("mailers", "orders", 1, "latest")
    assert found["acquired_by"] == []
    assert text.startswith("mailers reads orders-0 from offset 1, the end: it began after the record")
