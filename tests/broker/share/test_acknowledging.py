"""What a member may acknowledge: the checks, their errors, and what becomes of the records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.share.acknowledging import AcknowledgeType, ShareAcknowledgementBatch, check_form, decisions
from purgatorio.broker.share.giving_up import GiveUpCause
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState
from tests.broker.share.harness import Letters, Shared, stored

NONE, BAD_REQUEST, BAD_STATE = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD_STATE
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
A, K, G, X = (
    RecordState.AVAILABLE,
    RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVING,
    RecordState.ARCHIVED,
)
Said = tuple[int, int, int | Sequence[int]]


def made(*said: Said) -> list[ShareAcknowledgementBatch]:
    return [ShareAcknowledgementBatch(a, b, (types,) if isinstance(types, int) else types) for a, b, types in said]


# --- the form ---


@pytest.mark.parametrize(
    ("said", "renews", "error"),
    [
        ([], False, NONE),
        ([(0, 0, 1)], False, NONE),
        ([(0, 9, 1)], False, NONE),
        ([(0, 2, (0, 1, 2))], False, NONE),
        ([(0, 2, 3), (3, 5, 1)], False, NONE),
        ([(0, 2, 3), (2, 5, 1)], False, NONE),
        ([(0, 2, 3), (1, 5, 1)], False, BAD_REQUEST),
        ([(3, 5, 1), (0, 2, 3)], False, BAD_REQUEST),
        ([(5, 4, 1)], False, BAD_REQUEST),
        ([(-2, 4, 1)], False, BAD_REQUEST),
        ([(0, 4, ())], False, BAD_REQUEST),
        ([(0, 4, (1, 1))], False, BAD_REQUEST),
        ([(0, 4, (1, 1, 1, 1, 1, 1))], False, BAD_REQUEST),
        ([(0, 0, (1, 1))], False, BAD_REQUEST),
        ([(0, 4, 5)], True, BAD_REQUEST),
        ([(0, 4, -1)], True, BAD_REQUEST),
        ([(0, 1, (1, 5))], True, BAD_REQUEST),
        ([(0, 1, (-1, 1))], True, BAD_REQUEST),
        ([(0, 4, 4)], False, BAD_REQUEST),
        ([(0, 4, 4)], True, NONE),
        ([(0, 1, (1, 4))], False, BAD_REQUEST),
        ([(0, 1, 1), (2, 3, 4)], False, BAD_REQUEST),
    ],
)
def test_the_form_of_acknowledgements(said: list[Said], renews: bool, error: ErrorCode) -> None:
    assert check_form(made(*said), renews=renews) == error


# --- the records ---


def shared_records() -> Shared:
    """Records from 10 on: accepted 12 and 13, available 18 and 19, a hole of 30 to 39; up to 49. Bob has 14 and 15."""
    shared = Shared(start_offset=10)
    shared.acquire((10, 13))
    shared.acquire((14, 15), member="bob")
    shared.acquire((16, 29))
    shared.acquire((40, 49))
    assert shared.ack((12, 13, ACCEPT), (18, 19, RELEASE)) == [NONE]
    shared.persister.writes.clear()
    return shared


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ([(10, 11, 1)], NONE),
        ([(16, 17, 1), (20, 29, 1)], NONE),
        ([(16, 17, 1), (20, 29, 2), (40, 49, 3)], NONE),
        ([(0, 9, 1)], NONE),
        ([(0, 11, 1)], NONE),
        ([(-1, 11, 1)], NONE),
        ([(20, 49, 1)], NONE),
        ([(30, 31, 1)], NONE),
        ([(12, 13, 1)], BAD_STATE),
        ([(11, 12, 1)], BAD_STATE),
        ([(18, 18, 1)], BAD_STATE),
        ([(14, 14, 1)], BAD_STATE),
        ([(16, 17, 1), (14, 15, 1)], BAD_REQUEST),
        ([(10, 11, 1), (14, 15, 1)], BAD_STATE),
        ([(40, 50, 1)], BAD_REQUEST),
        ([(50, 50, 1)], BAD_REQUEST),
        ([(16, 17, 1), (17, 17, 1)], BAD_STATE),
        ([(14, 50, 1)], BAD_REQUEST),
    ],
)
def test_which_records_may_be_acknowledged(said: list[Said], error: ErrorCode) -> None:
    shared = shared_records()
    before = shared.picture
    assert shared.ack(*said) == [error]
    if error:
        assert (shared.picture, shared.persister.writes) == (before, [])


def test_nothing_can_be_acknowledged_while_nothing_is_in_flight() -> None:
    shared = Shared(start_offset=10)
    assert shared.ack((10, 11, 1)) == [BAD_STATE]
    assert shared.ack((5, 11, 1)) == [BAD_STATE]
    assert shared.ack((5, 9, 1)) == [NONE]
    assert shared.ack() == [NONE]
    assert shared.persister.writes == []


def test_one_acknowledgement_that_fails_keeps_all_others_of_the_request_from_taking_effect() -> None:
    shared = shared_records()
    before, parked = shared.picture, shared.said()
    assert shared.ack((10, 11, RENEW), (16, 17, ACCEPT), (18, 18, ACCEPT), renews=True) == [BAD_STATE]
    assert (shared.picture, shared.said()) == (before, parked)


def test_another_member_cannot_acknowledge() -> None:
    shared = shared_records()
    assert shared.ack((10, 11, 1), member="bob") == [BAD_STATE]
    assert shared.ack((14, 15, 1), member="bob") == [NONE]


def test_records_that_are_being_acknowledged_cannot_be_again() -> None:
    shared = shared_records()
    shared.persister.waits = True
    assert shared.ack((16, 17, 1)) == []
    assert shared.ack((16, 17, 1)) == [BAD_STATE]
    assert shared.ack((17, 17, 4), renews=True) == [BAD_STATE]
    assert shared.ack((20, 20, 1)) == []


def test_renewals_can_be_off() -> None:
    shared = shared_records()
    shared.settings = ShareSettings(renews=False)
    assert shared.ack((10, 11, RENEW), renews=True) == [BAD_STATE]
    assert shared.ack((16, 17, (ACCEPT, RENEW)), renews=True) == [BAD_STATE]
    assert shared.ack((0, 1, RENEW), renews=True) == [NONE]


# --- what becomes of them ---


@pytest.mark.parametrize(
    ("types", "picture", "written"),
    [
        (ACCEPT, "", [(0, 3, K, 1)]),
        (REJECT, "", [(0, 3, X, 1)]),
        (GAP, "", [(0, 3, X, 1)]),
        (RELEASE, "a1 a1 a1 a1", [(0, 3, A, 1)]),
        ((ACCEPT, ACCEPT, RELEASE, ACCEPT), "a1 k1", [(0, 1, K, 1), (2, 2, A, 1), (3, 3, K, 1)]),
        ((RELEASE, GAP, REJECT, ACCEPT), "a1 x1 x1 k1", [(0, 0, A, 1), (1, 2, X, 1), (3, 3, K, 1)]),
        ((RENEW, GAP, RENEW, ACCEPT), "q1 x1 q1 k1", [(1, 1, X, 1), (3, 3, K, 1)]),
        (RENEW, "q1 q1 q1 q1", []),
    ],
)
def test_what_becomes_of_records(types: int | tuple[int, ...], picture: str, written: list[tuple[int, ...]]) -> None:
    shared = Shared()
    shared.acquire((0, 3))
    assert shared.ack((0, 3, types), renews=True) == [NONE]
    assert shared.picture == picture
    assert [each for write in shared.persister.writes for each in write.batches] == written


def test_a_part_below_the_start_offset_needs_no_acknowledgement() -> None:
    shared = Shared()
    shared.acquire((0, 9))
    shared.partition.log_start_moved(4)
    assert shared.ack((0, 5, (3, 3, 3, 3, 1, 2))) == [NONE]
    assert shared.picture == "a1 q1 q1 q1 q1"
    assert shared.persister.writes[-1].batches == [(4, 4, K, 1), (5, 5, A, 1)]


def test_an_acknowledgement_may_span_what_was_acquired_at_different_times() -> None:
    shared = Shared()
    shared.acquire((0, 4))
    shared.acquire((5, 9))
    assert shared.ack((3, 7, 1)) == [NONE]
    assert shared.persister.writes[-1].batches == [(3, 7, K, 1)]
    assert shared.picture == "q1 q1 q1 k1 k1 k1 k1 k1 q1 q1"


@pytest.mark.parametrize(("limit", "state"), [(3, X), (4, A)])
def test_a_release_at_the_delivery_limit_gives_records_up(limit: int, state: RecordState) -> None:
    shared = Shared(batches=[stored(0, 0, A, 2)], settings=ShareSettings(delivery_count_limit=limit))
    shared.acquire((0, 0))
    assert shared.ack((0, 0, RELEASE)) == [NONE]
    assert shared.persister.writes[-1].batches == [(0, 0, state, 3)]


@pytest.mark.parametrize(
    ("kind", "deliveries", "state", "cause"),
    [
        (REJECT, 0, G, GiveUpCause.REJECTED),
        (RELEASE, 4, G, GiveUpCause.DELIVERY_LIMIT),
        (RELEASE, 0, A, None),
        (GAP, 0, X, None),
        (ACCEPT, 0, K, None),
    ],
)
def test_what_is_given_up_waits_for_its_dead_letter(
    kind: int, deliveries: int, state: RecordState, cause: GiveUpCause | None
) -> None:
    letters = Letters()
    shared = Shared(batches=[stored(0, 0, A, deliveries)], letters=letters)
    shared.acquire((0, 0))
    shared.persister.waits = True
    shared.ack((0, 0, kind))
    assert letters.given_up == []
    shared.persister.answer()
    assert shared.persister.writes[-1].batches == [(0, 0, state, deliveries + 1)]
    assert letters.given_up == ([] if cause is None else [(0, 0, deliveries + 1, cause)])


# --- two phases ---


def test_records_are_neither_acquired_nor_gone_while_they_are_being_acknowledged() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.persister.waits = True
    assert shared.ack((0, 1, RELEASE), (2, 3, ACCEPT)) == []
    assert shared.picture == "q1! q1! q1! q1!"
    assert shared.partition.next_fetch_offset() == 4
    assert shared.acquire((0, 3), at=0) == []
    assert shared.persister.writes[-1].delivery_complete_count == 2
    shared.persister.answer()
    assert shared.picture == "a1 a1 k1 k1"
    assert shared.changes == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_write_that_fails_changes_nothing(error: ErrorCode, told: ErrorCode) -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.persister.error = error
    assert shared.ack((0, 1, ACCEPT), (2, 3, RELEASE)) == [told]
    assert shared.picture == "q1 q1 q1 q1"
    assert shared.partition.in_flight.complete_count == 0
    shared.persister.error = NONE
    assert shared.ack((0, 3, ACCEPT)) == [NONE]
    assert shared.outcomes() == ["completed"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_write_that_is_fenced_fences_the_share_partition(error: ErrorCode, told: ErrorCode) -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.persister.error = error
    assert shared.ack((0, 1, ACCEPT)) == [told]
    assert shared.fenced == [error]
    assert shared.parked() == []
    assert shared.ack((2, 3, ACCEPT)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_writes_may_be_answered_in_any_order() -> None:
    shared = Shared()
    shared.acquire((0, 5))
    shared.persister.waits = True
    first, second, third = shared.ack((0, 1, 1)), shared.ack((2, 3, 1)), shared.ack((4, 5, 1))
    shared.persister.waiting.reverse()
    shared.persister.answer()
    assert (shared.partition.start_offset, shared.picture) == (0, "q1! q1! q1! q1! k1 k1")
    shared.persister.answer(ErrorCode.NETWORK_EXCEPTION)
    assert shared.picture == "q1! q1! q1 q1 k1 k1"
    shared.persister.answer()
    assert shared.partition.start_offset == 2
    assert len(first) == len(second) == len(third) == 1


# --- what is said ---


@pytest.mark.parametrize(
    ("said", "start_offset", "expected"),
    [
        ([(0, 9, 1)], 0, [(0, 9, 1)]),
        ([(0, 9, 1)], 4, [(4, 9, 1)]),
        ([(0, 9, 1)], 10, []),
        ([(0, 3, (1, 1, 2, 1))], 0, [(0, 1, 1), (2, 2, 2), (3, 3, 1)]),
        ([(0, 3, (1, 1, 2, 1))], 2, [(2, 2, 2), (3, 3, 1)]),
        ([(5, 6, (3, 3))], 0, [(5, 6, 3)]),
        ([(0, 0, 1), (1, 1, 1), (3, 3, 1), (4, 4, 2)], 0, [(0, 1, 1), (3, 3, 1), (4, 4, 2)]),
    ],
)
def test_neighbours_of_a_type_come_together(
    said: list[Said], start_offset: int, expected: list[tuple[int, int, int]]
) -> None:
    assert [tuple(each) for each in decisions(made(*said), start_offset)] == expected
