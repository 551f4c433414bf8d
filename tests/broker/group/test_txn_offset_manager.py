"""The operation of a TxnOffsetCommit that waits for the coordinator of its transaction; see also the API's tests."""

from __future__ import annotations

from purgatorio.broker.group.txn_offset_manager import AdmissionKey, DelayedAdmission
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.harness import PARTITION


def admission(told: list[ErrorCode]) -> DelayedAdmission:
    return DelayedAdmission(5_000, "billing-1", PARTITION, told.append)


def test_it_is_complete_when_the_guard_has_decided() -> None:
    told: list[ErrorCode] = []
    waiting = admission(told)
    assert not waiting.try_complete()
    waiting.is_decided = True
    assert waiting.try_complete()
    assert told == []


def test_a_failure_is_answered() -> None:
    told: list[ErrorCode] = []
    admission(told).on_error(RuntimeError())
    assert told == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_what_the_guard_has_decided_is_not_answered_a_second_time() -> None:
    told: list[ErrorCode] = []
    waiting = admission(told)
    waiting.is_decided = True
    waiting.on_complete()
    waiting.on_shutdown()
    waiting.on_error(RuntimeError())
    assert told == []


def test_its_key_is_shown_as_the_transactional_id() -> None:
    assert str(AdmissionKey("billing-1")) == "billing-1"
