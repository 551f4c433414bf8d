"""Transactional ids as observers see them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from purgatorio.broker.causes.cause import MarkersMissing, StateNotCommitted
from purgatorio.broker.causes.words import as_document
from purgatorio.broker.txn.overview import LATE_MS, TransactionNumbers, numbers, overview, unmarked
from tests.broker.txn.harness import ID, TIMEOUT_MS, A, B, TransactionHarness


def told(harness: TransactionHarness, *names: str) -> list[Any]:
    view = overview(harness.transactions, harness.transaction())
    return [view[name] for name in names]


def test_an_open_transaction_has_the_time_that_is_left() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    assert told(harness, "state", "open_ms", "timeout_left_ms") == ["Empty", None, None]
    harness.add(producer, A, B)
    harness.advance_ms(100)
    assert told(harness, "id", "producer_id", "producer_epoch") == [ID, *producer]
    assert told(harness, "state", "open_ms", "timeout_left_ms") == ["Ongoing", 100, TIMEOUT_MS - 100]
    assert told(harness, "partition_count", "missing_markers", "causes") == [2, 0, []]


def test_a_transaction_that_is_ended_tells_which_markers_are_missing() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    harness.add(producer, A, B)
    harness.end(producer)
    harness.ends.write(A)
    assert told(harness, "state", "timeout_left_ms", "missing_markers") == ["PrepareCommit", None, 1]
    assert list(unmarked(harness.transaction())) == [B]
    assert told(harness, "causes") == [[as_document(MarkersMissing(ID, (), 0), 100)]]
    harness.ends.write(B)
    harness.advance_ms(7)
    assert told(harness, "state", "open_ms", "idle_ms", "causes") == ["CompleteCommit", None, 7, []]


def test_a_transition_tells_that_it_waits_for_replicas() -> None:
    harness = TransactionHarness(replicas=(1, 2))
    harness.init()
    assert told(harness, "causes") == [[as_document(StateNotCommitted(ID, "Empty"), 100)]]


def test_transactions_are_counted() -> None:
    harness = TransactionHarness()
    harness.ends.is_instant = True
    for name in ("open", "done", "late"):
        producer = harness.init(transactional_id=name, timeout_ms=10 if name == "late" else TIMEOUT_MS).producer
        harness.add(producer, transactional_id=name)
        if name == "done":
            harness.end(producer, transactional_id=name)
    harness.advance_ms(10)
    sender: Any = SimpleNamespace(missing_count=4)
    verifier: Any = SimpleNamespace(verification_count=5, failure_count=6)
    assert numbers(harness.transactions, sender, verifier) == TransactionNumbers(
        ids=3,
        open=1,
        missing_markers=4,
        committed=1,
        aborted=1,
        timed_out=1,
        expired=0,
        verifications=5,
        failed_verifications=6,
        late_before_ms=harness.clock.wall_ms() - 900_000 - LATE_MS,
    )
