"""The rules about transactions that stay open, and producers that were fenced."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from purgatorio.testing import cluster
from tests.admin.operations.reading.why.documents import error, facts, group, member, partition, position, said


def held_by(**more: Any) -> dict[str, Any]:
    """An open transaction as the cause of a wait."""
    row = {"kind": "OpenTransaction", "tp": "orders-0", "transactional_id": "tx-7", "producer_id": 1000}
    return {**row, "first_offset": 3, "open_ms": 12_000, **more}


def began(client: str, at_ms: int) -> dict[str, Any]:
    """A producer that initialized its transactional id."""
    return {"client": client, "transactional_id": "tx-7", "at_ms": at_ms}


def test_an_open_transaction_is_named_with_its_producer() -> None:
    waits = position("reader", 3, isolation="read_committed", held_back_by=held_by())
    document = facts(partitions=[partition(end=5)], positions=[waits], producers=[began("checkout", 1)])
    assert said(document) == [
        "reader reads orders-0 read_committed, only up to offset 3: transaction tx-7 of checkout is open since 12 s; "
        "if that is not meant, commit or abort it, or read with isolation.level=read_uncommitted"
    ]
    assert said(document, "tx-7") == said(document)
    document["groups"] = [group("billing", member("reader", ("orders", 0))), group("mail", member("other"))]
    assert said(document, "billing") == said(document)
    assert said(document, "mail") == []


def test_a_transaction_whose_marker_is_not_there_yet_has_ended() -> None:
    waits = position("reader", 3, held_back_by=held_by(transactional_id="", open_ms=None))
    assert said(facts(partitions=[partition(end=5)], positions=[waits])) == [
        "reader reads orders-0 read_committed, only up to offset 3: the end of transaction producer 1000 is not "
        "written yet"
    ]


def test_a_fenced_producer_hears_of_the_one_that_came_after_it() -> None:
    row = error("one", "AddPartitionsToTxn", "INVALID_PRODUCER_EPOCH", transactional_id="tx-7")
    document = facts(errors=[row], producers=[began("one", 1), began("two", 2)])
    assert said(document) == [
        "one is fenced (AddPartitionsToTxn: INVALID_PRODUCER_EPOCH): two began with the same transactional.id, tx-7, "
        "after it; if that is not meant, give each producer its own"
    ]
    assert "another producer began" in said(facts(errors=[row], producers=[began("one", 1), began("one", 2)]))[0]
    for producers in ([began("two", 2)], [began("one", 1)], [began("two", 1), began("one", 2)]):
        assert said(facts(errors=[row], producers=producers)) == []  # that another one began after it is not certain


def ran_out(at_ms: int, **more: Any) -> dict[str, Any]:
    """A transaction that was aborted at its deadline."""
    return {"transactional_id": "tx-7", "at_ms": at_ms, "open_ms": 500, "is_early": False, **more}


def test_a_producer_whose_transaction_ran_out_was_fenced_by_no_other() -> None:
    row = error("one", "EndTxn", "INVALID_PRODUCER_EPOCH", transactional_id="tx-7")
    document = facts(errors=[row], producers=[began("one", 1), began("two", 9)], timed_out=[ran_out(5)])
    refused = "so one's next request was refused (EndTxn: INVALID_PRODUCER_EPOCH)"
    assert said(document) == [
        f"the transaction of tx-7 ran out after 0.5 s (transaction.timeout.ms), {refused}; end it sooner, or raise that"
    ]
    asked = facts(errors=[row], producers=[began("one", 1)], timed_out=[ran_out(5, is_early=True)])
    assert said(asked) == [f"the transaction of tx-7 ran out after 0.5 s (on request), {refused}"]
    earlier = facts(errors=[row], producers=[began("one", 7), began("two", 9)], timed_out=[ran_out(5)])
    assert "two began" in said(earlier)[0]


def test_an_epoch_without_a_transactional_id_is_not_about_one() -> None:
    assert said(facts(errors=[error("one", "Produce", "INVALID_PRODUCER_EPOCH")])) == []


def test_records_of_a_transaction_that_was_aborted_are_skipped() -> None:
    aborted = {"topic": "orders", "partition": 0, "transactional_id": "tx-7", "producer_id": 1000}
    reads = position("reader", 2, first_offset=0, isolation="read_committed")
    document = facts(
        partitions=[partition(end=2)], positions=[reads], aborted=[{**aborted, "first_offset": 0, "marker_offset": 1}]
    )
    assert said(document) == [
        "reader reads orders-0 read_committed, and skips the records of transaction tx-7 from offset 0 on: it was "
        "aborted; if that is not meant, commit it, or read with isolation.level=read_uncommitted"
    ]
    assert said({**document, "partitions": [partition(end=3)]}) == []
    assert said({**document, "positions": [{**reads, "isolation": "read_uncommitted"}]}) == []


@pytest.mark.clients
def test_an_aborted_transaction_is_among_the_facts() -> None:
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        with Producer(kafka.client_config("confluent", "producer") | {"transactional.id": "tx-7"}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce("orders", "tea")
            producer.flush()
            producer.abort_transaction()
        reads = {"group.id": "g", "client.id": "reader", "isolation.level": "read_committed"}
        with Consumer(kafka.client_config("confluent", "consumer") | reads) as consumer:
            consumer.assign([TopicPartition("orders", 0, 0)])
            kafka.until_parked(api="Fetch", client="reader").wait()
            says = kafka.explain("reader").splitlines()[0]
    assert says.startswith("reader reads orders-0 read_committed, and skips the records of transaction tx-7 from ")
