"""A share partition is loaded, gives records to members, takes their acknowledgements, and is fenced."""

from __future__ import annotations

from purgatorio.protocol.errors import ErrorCode
from tests.broker.share.harness import Shared

NONE = ErrorCode.NONE


def test_records_are_acquired_and_accepted() -> None:
    shared = Shared()
    assert shared.partition.next_fetch_offset() == 0
    assert shared.acquire((0, 9)) == [(0, 9, 1)]
    assert (shared.partition.start_offset, shared.partition.end_offset) == (0, 9)
    assert shared.partition.next_fetch_offset() == 10
    assert shared.said() == ["app: orders-0 0–9: orders-0: member ada of app has not acknowledged 0 to 9"]
    assert shared.ack((0, 9, 1)) == [NONE]
    assert (shared.partition.start_offset, shared.partition.end_offset) == (10, 9)
    assert shared.said() == []
    assert shared.outcomes() == ["completed"]
    (write,) = shared.persister.writes
    assert (write.start_offset, write.delivery_complete_count, write.epochs) == (0, 10, (7, 3))
    assert write.batches == [(0, 9, 2, 1)]
    assert shared.changes == 1


def test_records_whose_lock_runs_out_are_delivered_again() -> None:
    shared = Shared()
    shared.acquire((0, 9))
    shared.advance(29_999)
    assert shared.picture == " ".join(["q1"] * 10)
    shared.advance(1)
    assert shared.picture == " ".join(["a1"] * 10)
    assert shared.outcomes() == ["expired"]
    assert [write.batches for write in shared.persister.writes] == [[(0, 9, 0, 1)]]
    assert shared.partition.next_fetch_offset() == 0
    assert shared.acquire((0, 9), member="bob") == [(0, 9, 2)]
    assert shared.ack((0, 9, 1)) == [ErrorCode.INVALID_RECORD_STATE]
    assert shared.ack((0, 9, 1), member="bob") == [NONE]
