"""The series of share groups, as a scrape sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric

from purgatorio.admin.metrics import prometheus
from purgatorio.admin.metrics.share import share_steps
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share import share_metrics
from purgatorio.broker.share.giving_up import DeadLetterCounts
from purgatorio.broker.share.share_metrics import OTHERS
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import batch
from tests.broker.share.fetching import ShareHarness

ACCEPT, RELEASE, REJECT = 1, 2, 3
PARTITION = "kafka_server_sharepartitionmetrics"
GROUP = "kafka_server_sharegroupmetrics"
TOPIC = "kafka_server_brokertopicmetrics"


@pytest.fixture
def house() -> ShareHarness:
    return ShareHarness(partitions=2)


def produce(house: ShareHarness, partition: int, count: int) -> None:
    house.produce(TopicPartition("orders", partition), records=batch(*[b"a"] * count), acks=1)


def scraped(house: ShareHarness, *, per_partition: bool = False) -> dict[str, float]:
    """Return the samples with their labels, without the broker."""
    broker: Any = SimpleNamespace(metrics=house.metrics, led_shares=house.shares)
    metrics: list[Metric] = [each for each in share_steps([broker], per_partition=per_partition) if each is not None]
    metrics += prometheus._topics([broker])
    found = {}
    for metric in metrics:
        for sample in metric.samples:
            labels = ",".join(value for name, value in sample.labels.items() if name != "broker")
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_what_is_in_flight_is_counted_by_group_and_topic(house: ShareHarness) -> None:
    produce(house, 0, 3)
    produce(house, 1, 2)
    ada = house.member()
    ada.fetch(house.key(0), house.key(1))
    read = scraped(house)
    assert read[f"{PARTITION}_inflightmessagecount{{jobs,orders}}"] == 5
    assert read[f"{PARTITION}_inflightbatchcount{{jobs,orders}}"] == 2
    assert read[f"{PARTITION}_inflightbatchmessagecount_bucket{{jobs,orders,1.0}}"] == 0
    assert read[f"{PARTITION}_inflightbatchmessagecount_sum{{jobs,orders}}"] == 5
    each = scraped(house, per_partition=True)
    assert [each[f"{PARTITION}_inflightmessagecount{{jobs,orders,{number}}}"] for number in (0, 1)] == [3, 2]
    ada.acknowledge(house.key(0), 0, 2)
    assert scraped(house)[f"{PARTITION}_inflightmessagecount{{jobs,orders}}"] == 2


def test_acknowledgements_are_counted_by_their_type_when_they_succeed(house: ShareHarness) -> None:
    produce(house, 0, 6)
    ada = house.member()
    ada.fetch(house.key(0))
    ada.acknowledge(house.key(0), 0, 2, ACCEPT)
    ada.acknowledge(house.key(0), 3, 3, REJECT)
    bob = house.member("bob")
    bob.fetch(house.key(0))
    assert bob.acknowledge(house.key(0), 4, 5, REJECT).errors == [(ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE)]
    read = scraped(house)
    said = {kind: read[f"{GROUP}_recordacknowledgements_total{{{kind}}}"] for kind in ("Accept", "Release", "Reject")}
    assert said == {"Accept": 3, "Release": 0, "Reject": 1}
    assert f"{GROUP}_recordacknowledgements_total{{Gap}}" not in read
    assert read[f"{TOPIC}_totalshareacknowledgementrequests_total{{orders}}"] == 3
    assert read[f"{TOPIC}_failedshareacknowledgementrequests_total{{orders}}"] == 1


def test_fetches_are_counted_with_their_wait_their_yield_and_their_failures(house: ShareHarness) -> None:
    ada = house.member()
    waiting = ada.fetch(house.key(0), house.key(1), max_wait_ms=500)
    house.advance_ms(40)
    produce(house, 0, 1)
    assert waiting.answered
    read = scraped(house)
    assert read[f"{GROUP}_topicpartitionsacquiretimems_sum{{jobs}}"] == 40
    assert read[f"{GROUP}_requesttopicpartitionsfetchratio_sum{{jobs}}"] == 50
    assert read[f"{GROUP}_partitionloadtimems_count"] == 2
    assert read[f"{TOPIC}_totalsharefetchrequests_total{{orders}}"] == 1
    assert read[f"{TOPIC}_bytesout_total{{orders}}"] > 0
    ada.fetch(max_wait_ms=100)
    house.advance_ms(100)
    house.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for share in house.shares.partitions.of_group("jobs"):
        house.shares.partitions.drop(share)
    assert [each[0] for each in ada.fetch().errors] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    read = scraped(house)
    assert read["kafka_server_delayedsharefetchmetrics_expires_total"] == 1
    assert read[f"{TOPIC}_failedsharefetchrequests_total{{orders}}"] == 1


def test_the_time_that_a_state_takes_to_be_read_is_counted(house: ShareHarness) -> None:
    house.persister.held = True
    house.member().fetch(house.key(0))
    for wait_ms in (20, 10):  # of the state, then of the start offset, which is written
        house.advance_ms(wait_ms)
        house.persister.answer()
    assert scraped(house)[f"{GROUP}_partitionloadtimems_sum"] == 30


def test_locks_that_run_out_and_sessions_that_are_lost_are_counted(house: ShareHarness) -> None:
    produce(house, 0, 3)
    ada = house.member()
    ada.fetch(house.key(0), house.key(1))
    read = scraped(house)
    assert read["kafka_server_sharesessioncache_sharesessionscount"] == 1
    assert read["kafka_server_sharesessioncache_sharepartitionscount"] == 2
    house.advance_ms(30_000)
    assert scraped(house)[f"{PARTITION}_acquisitionlocktimeout_total{{jobs,orders}}"] == 3
    ada.connection.lost()
    read = scraped(house)
    assert read["kafka_server_sharesessioncache_sharesessionevictions_total"] == 1
    assert f"{PARTITION}_inflightmessagecount{{jobs,orders}}" not in read, "a group that has gone has no series"


def test_groups_and_topics_past_the_bound_share_one_series(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_metrics, "MAX_SHARED_TOPICS", 1)
    monkeypatch.setattr(share_metrics, "MAX_GROUPS", 1)
    metrics = house.shares.metrics
    first, second, third = (metrics.partition(group, "orders") for group in ("a", "b", "c"))
    second.timed_out(2)
    third.timed_out(3)
    assert {key: counts.timed_out_count for key, counts in metrics.topics.items()} == {("a", "orders"): 0, OTHERS: 5}
    for each in (first, second, third):
        each.end()
    assert not metrics.topics
    for group in ("a", "b"):
        metrics.acquired(group, waited_ms=1, partition_count=1, of_count=1)
    assert list(metrics.groups) == ["b"]


def test_dead_letters_are_counted_by_group(house: ShareHarness) -> None:
    counts = DeadLetterCounts()
    house.shares.dead_letters = SimpleNamespace(counts=counts)  # type: ignore[assignment]  # all that is read
    counts.of("jobs").records += 7
    counts.of("jobs").requests += 3
    counts.of("jobs").failures += 1
    read = scraped(house)
    assert read[f"{GROUP}_deadletterqueuerecordcount_total{{jobs}}"] == 7
    assert read[f"{GROUP}_deadletterqueuetotalproducerequests_total{{jobs}}"] == 3
    assert read[f"{GROUP}_deadletterqueuefailedproducerequests_total{{jobs}}"] == 1
