"""Tests of produce requests that wait for the coordinator of their transaction."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.log import Log
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import ORDERS, Harness
from tests.broker.replica.transactions import coordinator_of, send, transactional
from tests.compiled import replaces_functions
from tests.error_log import ErrorLog


def test_it_names_the_transaction_and_the_partition(broker: Harness) -> None:
    coordinator = coordinator_of(broker)
    send(broker)
    (operation,) = broker.produce_purgatory.operations(10)
    assert in_words(operation.causes) == (
        "the coordinator of `billing-1` has not confirmed that its transaction includes orders-0"
    )
    assert (operation.client, operation.keys) == ("producer", (ORDERS,))
    coordinator.only.answer()
    (finished,) = broker.finished
    assert (finished.outcome, finished.cause, finished.event_key) == ("completed", "transaction verified", ORDERS)


def test_at_its_deadline_the_batch_is_refused_and_not_appended_later(broker: Harness) -> None:
    coordinator = coordinator_of(broker)
    first, second = send(broker, timeout_ms=500), send(broker, 1, timeout_ms=2000)
    broker.advance_ms(501)
    assert first.error_codes == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert not second.answered
    coordinator.only.answer()
    assert second.error_codes == [ErrorCode.NOT_ENOUGH_REPLICAS], "the first one is to be sent again before it"
    assert broker.partition().log.log_end_offset == 0
    assert broker.replicas.guard.waiting_bytes == 0


def test_with_no_time_left_it_is_refused_at_once(broker: Harness) -> None:
    coordinator_of(broker)
    assert send(broker, timeout_ms=0).error_codes == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_a_broker_that_stops_refuses_what_waits(broker: Harness) -> None:
    coordinator = coordinator_of(broker)
    produced = send(broker, acks=-1)
    broker.produce_purgatory.shutdown()
    assert produced.error_codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    coordinator.only.answer()
    assert broker.partition().log.log_end_offset == 0


def test_the_memory_of_what_waits_has_a_limit(broker: Harness) -> None:
    coordinator = coordinator_of(broker)
    guard = broker.replicas.guard
    guard.max_waiting_bytes = 4 * 1024
    batch = transactional(count=200)
    assert len(batch) > 1024
    requests = [send(broker, records=batch) for _ in range(4)]
    assert guard.waiting_bytes <= guard.max_waiting_bytes
    assert [each.answered for each in requests] == [False, True, True, True]
    assert requests[1].error_codes == [ErrorCode.NOT_ENOUGH_REPLICAS]
    coordinator.only.answer()
    assert guard.waiting_bytes == 0


def test_a_request_that_has_waited_leaves_no_cyclic_garbage(broker: Harness) -> None:
    """The garbage collector holds the event loop; see `tests/broker/test_no_cyclic_garbage.py`."""
    coordinator = coordinator_of(broker)
    gc.collect()
    gc.disable()
    try:
        for epoch in range(3):
            produced = send(broker, epoch=epoch)
            coordinator.asked.pop().answer(ErrorCode.NONE if epoch else ErrorCode.TRANSACTION_ABORTABLE)
            assert produced.answered
        late = send(broker, epoch=5, timeout_ms=5)
        broker.advance_ms(10)
        coordinator.asked.pop().answer()
        assert late.answered
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_topic_that_is_deleted_meanwhile_ends_the_wait(broker: Harness) -> None:
    coordinator = coordinator_of(broker)
    produced = send(broker)
    broker.set_topics()
    assert produced.error_codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    coordinator.only.answer()
    assert broker.replicas.guard.waiting_bytes == 0


def test_a_batch_larger_than_the_limit_may_wait_alone(broker: Harness) -> None:
    coordinator = coordinator_of(broker)
    broker.replicas.guard.max_waiting_bytes = 10
    produced = send(broker)
    coordinator.only.answer()
    assert produced.error_codes == [ErrorCode.NONE]


@replaces_functions
def test_a_failure_of_the_log_is_not_taken_for_success_and_holds_up_no_other(
    broker: Harness, monkeypatch: pytest.MonkeyPatch, error_log: ErrorLog
) -> None:
    coordinator = coordinator_of(broker)
    requests = [send(broker), send(broker, 1)]
    log, append = broker.partition().log, Log.append_as_leader
    calls = iter([True])

    def fail_once(self: Log, records: Any, **arguments: Any) -> Any:
        if next(calls, False):
            raise AssertionError("a bug")
        return append(self, records, **arguments)

    monkeypatch.setattr(Log, "append_as_leader", fail_once)
    coordinator.only.answer()
    error_log.expect("an append could not be made")
    assert [each.answered for each in requests] == [False, True]
    broker.advance_ms(2000)
    assert requests[0].error_codes == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert (log.log_end_offset, broker.replicas.guard.waiting_bytes) == (0, 0)
