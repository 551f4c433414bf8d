"""A follower's session, as its leader sees it: what is left out of a request is still at its offset."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.purgatory import Purgatory
from tests.broker.api.test_fetch_sessions import Client, told
from tests.broker.replica.harness import ORDERS, Harness, batch, topic
from tests.compiled import replaces_functions

MAX_LAG_MS = 1_000


@pytest.fixture
def broker() -> Harness:
    """Broker 1, which leads orders-0 with the followers 2 and 3 in sync."""
    harness = Harness()
    harness.set_topics(topic())
    return harness


@pytest.fixture
def follower(broker: Harness) -> Client:
    """Broker 2 with a session in which it has named its offset once, level with the leader."""
    broker.produce(acks=1)
    client = Client(broker, version=16, replica=2)
    client.fetch(("orders", 0, 0))
    client.fetch(("orders", 0, 1), fields={"log_start_offset": 0})
    return client


def lags(broker: Harness) -> list[int]:
    """Return the brokers that the leader proposes to remove from the ISR now."""
    broker.proposals.clear()
    broker.follow((3, broker.partition().log.log_end_offset))
    for _ in broker.replicas.laggard_steps(MAX_LAG_MS):
        pass
    kept = [{each.broker_id for each in proposal.isr} for _, proposal in broker.proposals]
    removed = [broker_id for isr in kept for broker_id in (2, 3) if broker_id not in isr]
    for partition, proposal in broker.proposals:
        partition.withdraw(proposal)
    return removed


def test_a_level_follower_whose_session_is_alive_stays_in_sync_through_the_next_append(
    broker: Harness, follower: Client
) -> None:
    for _ in range(10):
        broker.advance_ms(MAX_LAG_MS)
        follower.fetch()
    broker.produce(acks=1)
    broker.advance_ms(MAX_LAG_MS)
    assert lags(broker) == []
    broker.advance_ms(1)
    assert lags(broker) == [2], "counted from its last request, not from the last that named the partition"


def test_a_follower_that_sends_no_requests_lags_from_its_last_one(broker: Harness, follower: Client) -> None:
    broker.advance_ms(10 * MAX_LAG_MS)
    broker.produce(acks=1)
    assert lags(broker) == [2]


def test_a_follower_that_catches_up_later_is_not_set_back_to_the_time_when_it_was_named(
    broker: Harness, follower: Client
) -> None:
    broker.advance_ms(10 * MAX_LAG_MS)
    follower.fetch()
    broker.produce(acks=1)
    broker.produce(acks=1)
    follower.fetch(("orders", 0, 2), fields={"log_start_offset": 0})
    broker.advance_ms(MAX_LAG_MS)
    assert lags(broker) == []


def test_a_follower_that_is_level_joins_the_isr_though_it_does_not_name_the_partition(
    broker: Harness, follower: Client
) -> None:
    broker.set_topics(topic(isr=(1, 3), partition_epoch=1))
    assert broker.proposals == []
    follower.fetch()
    ((partition, proposal),) = broker.proposals
    assert [each.broker_id for each in proposal.isr] == [1, 3, 2]
    partition.withdraw(proposal)
    broker.proposals.clear()
    follower.fetch()
    assert len(broker.proposals) == 1, "again, since it was not committed"


def test_the_high_watermark_does_not_wait_for_a_follower_whose_state_the_leader_lost(
    broker: Harness, follower: Client
) -> None:
    """The follower left the replicas and is back, in images of which it saw only the last one."""
    broker.set_topics(topic(replicas=(1, 3), partition_epoch=1))
    broker.set_topics(topic(partition_epoch=2))
    assert broker.partition().followers[2].log_end_offset == -1
    follower.fetch()
    assert broker.partition().followers[2].log_end_offset == 1
    broker.follow((3, 1))
    assert broker.partition().high_watermark == 1


def test_an_omitted_high_watermark_is_told_at_the_latest_when_the_wait_ends(broker: Harness, follower: Client) -> None:
    waiting = follower.send(max_wait_ms=500)
    broker.follow((3, 1))
    assert waiting.said == []
    broker.advance_ms(501)
    ((name, data),) = told(waiting.only).items()
    assert (name[-2:], data.high_watermark, list(data.records)) == ("-0", 1, [])


@replaces_functions
def test_a_producer_is_answered_before_the_fetch_that_moved_the_high_watermark_is_read(
    broker: Harness, follower: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    broker.follow((3, 1))
    broker.replicas.append(
        [(ORDERS, batch(b"value"))], acks=-1, timeout_ms=1_000, done=lambda results: order.append("producer")
    )
    broker.follow((3, 2))
    park = broker.fetch_purgatory.try_complete_else_watch

    def note_and_park(purgatory: object, *operation: Any, **options: Any) -> bool:
        order.append("parked")
        return park(*operation, **options)

    monkeypatch.setattr(Purgatory, "try_complete_else_watch", note_and_park)
    follower.send(("orders", 0, 2), fields={"log_start_offset": 0}, max_wait_ms=500)
    assert order == ["producer", "parked"]


@replaces_functions
def test_a_fetch_of_thousands_looks_only_at_the_partition_that_had_an_event(
    broker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.set_topics(topic(partitions=2_000, isr=(1,), partition_epoch=1))
    while not broker.replicas.is_current:
        broker.replicas.apply_more()
    looks = []
    client = Client(broker)
    client.fetch(*[("orders", index, 0) for index in range(2_000)])
    look = broker.replicas.reader.look
    monkeypatch.setattr(broker.replicas.reader, "look", lambda *each: (looks.append(each), look(*each))[1])
    waiting = client.send(max_wait_ms=500)
    assert len(looks) == 0
    broker.produce(acks=1)
    assert len(looks) == 1
    assert list(told(waiting.only)) == ["orders-0"]


def test_a_log_start_ends_the_wait_of_a_follower_once(broker: Harness, follower: Client) -> None:
    broker.follow((3, 1))
    waiting = follower.send(max_wait_ms=500)
    broker.replicas.delete_records([(ORDERS, 1)], timeout_ms=0, done=lambda results: None)
    assert [data.log_start_offset for data in told(waiting.only).values()] == [1]
    follower.epoch += 1
    assert follower.send(max_wait_ms=500).said == [], "it has been told, and takes its time"
