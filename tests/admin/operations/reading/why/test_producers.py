"""The rules about producers whose records are not acknowledged, or not even sent."""

from __future__ import annotations

from typing import Any

from tests.admin.operations.reading.why.documents import broker, error, facts, partition, request, said

BEHIND = {"kind": "FollowerBehind", "tp": "orders-0", "broker_id": 2, "at_offset": 0, "wanted_offset": 1}


def produce(**more: Any) -> dict[str, Any]:
    """A produce request that waits for broker 2."""
    row = {"purgatory": "Produce", "client": "billing", "broker": 1, "waited_ms": 1_000, "remaining_ms": 9_000}
    return {**row, "missing": "orders-0: broker 2 is at 0 of 1", "keys": ["orders-0"], "causes": [BEHIND], **more}


def test_a_follower_that_is_held_up_is_named_with_the_way_out() -> None:
    def says(**state: Any) -> str:
        return said(facts(parked=[produce()], brokers=[broker(1), broker(2, **state)]))[0]

    waits = "billing waits for acks=all of orders-0: broker 2 is at 0 of 1, which"
    assert says(follower={"held": True}) == f"{waits} is held; release broker 2, or set acks=1"
    assert says(paused=True) == f"{waits} is paused; resume broker 2, or set acks=1"
    assert says(cut_off_from=[1, 3]) == f"{waits} is cut off from 1 and 3; heal the network, or set acks=1"
    assert says(state="killed") == f"{waits} does not run; start broker 2, or set acks=1"


def test_a_follower_that_is_only_slow_is_named_after_some_time() -> None:
    running = [broker(1), broker(2)]
    assert said(facts(parked=[produce(waited_ms=10)], brokers=running)) == []
    assert said(facts(parked=[produce()], brokers=running)) == [
        "billing waits for acks=all of orders-0: broker 2 is at 0 of 1"
    ]


def test_a_wait_that_has_ended_is_said_as_such_once() -> None:
    ended = produce(outcome="expired", done_ms=99_000, waited_ms=10_001, causes=[{**BEHIND, "at_offset": -1}])
    document = facts(ended=[ended, ended], brokers=[broker(1), broker(2, follower={"held": True})])
    assert said(document) == [
        "billing got no acks=all for orders-0 (expired after 10 s): broker 2 had fetched nothing, which is held; "
        "release broker 2, or set acks=1"
    ]


def test_a_wait_that_is_past_explains_nothing() -> None:
    held = [broker(1), broker(2, follower={"held": True})]
    ended = produce(outcome="expired", waited_ms=10_001, done_ms=40_000)
    assert said(facts(ended=[ended], brokers=held)) == []
    soon = produce(outcome="expired", waited_ms=10_001, done_ms=99_000)
    later = request("billing", "Produce", at_ms=99_500)
    assert len(said(facts(ended=[soon], brokers=held))) == 1
    assert said(facts(ended=[soon], brokers=held, requests=[later])) == []


def test_a_consumer_has_no_acks() -> None:
    """Its group's coordinator writes for it."""
    behind = produce(client="reader", causes=[{**BEHIND, "tp": "__consumer_offsets-9"}])
    held = [broker(1), broker(2, follower={"held": True})]
    commits = request("reader", "OffsetCommit", ended="waiting")
    assert said(facts(parked=[behind], brokers=held, requests=[commits])) == [
        "reader's OffsetCommit waits for broker 2, which is held; release broker 2"
    ]
    assert said(facts(parked=[behind], brokers=held)) == [
        "reader's request that writes to __consumer_offsets waits for broker 2, which is held; release broker 2"
    ]
    ended = {**behind, "outcome": "expired", "done_ms": 99_000}
    assert said(facts(ended=[ended], brokers=held)) == []


def test_too_few_replicas_in_sync_are_counted() -> None:
    weak = partition("orders", replicas=[{"broker": 1}, {"broker": 2}, {"broker": 3}], isr=[1])
    row = error("billing", "Produce", "NOT_ENOUGH_REPLICAS", topics=["orders"])
    assert said(facts(partitions=[weak], errors=[row])) == [
        "Produce of billing is refused, NOT_ENOUGH_REPLICAS: orders-0 has 1 of 3 replicas in sync, fewer than "
        "min.insync.replicas; bring brokers 2 and 3 back, or lower that"
    ]
    later = request("billing", "Produce", at_ms=row["last_ms"] + 1)
    assert said(facts(partitions=[weak], errors=[row], requests=[later])) == []


def test_a_producer_that_has_sent_nothing_holds_its_records() -> None:
    apis = ["ApiVersions", "Metadata"]
    asked = {"client": "checkout", "software": "librdkafka", "may_create": True, "apis": apis, "topics": ["orders"]}
    document = facts(partitions=[partition("orders")], clients=["checkout"], asked=[asked])
    assert said(document) == [
        "checkout knows where orders is, and has sent no record: it holds what it was given; flush() it, await what "
        "send() returns, or lower linger.ms"
    ]
    assert said({**document, "asked": [{**asked, "apis": [*asked["apis"], "Produce"]}]}) == []
    assert said({**document, "clients": []}) == []


def test_only_a_producer_is_said_to_hold_records() -> None:
    """A consumer of kafkajs that has subscribed has asked for the same; one of librdkafka asks for its group, too."""
    asked = {
        "client": "checkout",
        "software": "",
        "may_create": True,
        "apis": ["ApiVersions", "Metadata"],
        "topics": ["orders"],
    }
    document = facts(partitions=[partition("orders")], clients=["checkout"], asked=[asked])
    assert said(document) == []
    assert said({**document, "asked": [{**asked, "apis": [*asked["apis"], "InitProducerId"]}]}) != []
