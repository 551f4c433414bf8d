"""A share partition is loaded, gives records to members, takes their acknowledgements, and is fenced."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.share.giving_up import Archived, GiveUpCause
from purgatorio.broker.share.persister import ShareState
from purgatorio.broker.share.share_partition import SharePartitionState as State
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState, StateBatch
from tests.broker.share.harness import Letters, Shared, stored
from tests.error_log import ErrorLog

NONE = ErrorCode.NONE
A, Q, K, G, X = (
    RecordState.AVAILABLE,
    RecordState.ACQUIRED,
    RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVING,
    RecordState.ARCHIVED,
)


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


# --- loading ---


def test_a_share_partition_is_loaded_with_its_leader_epoch() -> None:
    shared = Shared(loaded=False)
    shared.persister.waits = True
    assert shared.partition.state is State.EMPTY
    answers = shared.load()
    assert (shared.partition.state, answers) == (State.INITIALIZING, [])
    assert shared.load() == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert [epoch for epoch, _ in shared.persister.reads] == [3]
    assert not shared.partition.may_acquire()
    assert shared.acquire((0, 9)) == []
    assert shared.ack((0, 9, 1)) == [ErrorCode.INVALID_RECORD_STATE]
    shared.partition.log_start_moved(5)
    shared.persister.answer_read()
    assert (shared.partition.state, answers, shared.changes) == (State.ACTIVE, [NONE], 1)
    assert shared.load() == [NONE]
    assert len(shared.persister.reads) == 1


@pytest.mark.parametrize(
    ("batches", "picture", "start_offset", "next_offset"),
    [
        ([], "", 10, 10),
        ([(10, 11, A, 2)], "a2 a2", 10, 10),
        ([(10, 11, K, 1)], "", 12, 12),
        ([(10, 11, K, 1), (12, 12, X, 5), (13, 13, A, 1)], "a1", 13, 13),
        ([(10, 10, A, 1), (11, 12, K, 1)], "a1 k1 k1", 10, 10),
        # what lies between was acquired when the leader changed
        ([(12, 13, K, 1)], "a0 a0 k1 k1", 10, 10),
        ([(10, 10, K, 1), (13, 13, X, 1)], "a0 a0 x1", 11, 11),
        ([(10, 10, G, 1), (11, 11, K, 1)], "g1 k1", 10, 12),
    ],
)
def test_what_is_stored_is_in_flight_again(
    batches: list[tuple[int, int, int, int]], picture: str, start_offset: int, next_offset: int
) -> None:
    shared = Shared(start_offset=10, batches=[stored(*each) for each in batches])
    assert (shared.picture, shared.partition.start_offset) == (picture, start_offset)
    assert shared.partition.next_fetch_offset() == next_offset
    assert shared.persister.writes == []


@pytest.mark.parametrize(
    "batches",
    [
        [stored(9, 11, A, 1)],
        [stored(12, 11, A, 1)],
        [stored(10, 12, A, 1), stored(12, 13, A, 1)],
        [stored(14, 14, A, 1), stored(12, 13, A, 1)],
        [stored(10, 12, Q, 1)],
        [stored(10, 12, 9, 1)],
    ],
)
def test_a_broken_state_is_not_loaded(batches: list[StateBatch], error_log: ErrorLog) -> None:
    shared = Shared(loaded=False)
    shared.persister.state = ShareState(7, 2, 10, batches=tuple(batches))
    assert shared.load() == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert shared.partition.state is State.FAILED
    error_log.expect("is broken")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_load_that_fails_is_not_tried_again(error: ErrorCode, told: ErrorCode) -> None:
    shared = Shared(loaded=False)
    shared.persister.error = error
    assert shared.load() == [told]
    assert (shared.partition.state, shared.changes) == (State.FAILED, 1)
    assert shared.load() == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert not shared.partition.may_acquire()
    assert len(shared.persister.reads) == 1


def test_a_group_without_a_start_offset_begins_where_its_config_says() -> None:
    shared = Shared(start_offset=-1)
    assert shared.partition.next_fetch_offset() == 40
    shared.acquire((40, 49))
    shared.ack((40, 40, 1))
    assert shared.persister.writes[-1].start_offset == 40


def test_a_start_that_was_chosen_is_written_before_a_record_leaves() -> None:
    """Else the next leader would choose again, and skip what was produced meanwhile."""
    shared = Shared(start_offset=-1, loaded=False)
    shared.persister.waits = True
    answers = shared.load()
    shared.persister.answer_read()
    assert (answers, shared.partition.may_acquire(), shared.changes) == ([], False, 0)
    (written,) = shared.persister.writes
    assert (written.start_offset, written.delivery_complete_count, written.batches) == (40, 0, [])
    assert written.epochs == (7, 3)
    shared.persister.answer()
    assert (shared.partition.state, shared.changes) == (State.ACTIVE, 1)
    assert shared.acquire((40, 49)) == [(40, 49, 1)]


def test_a_start_that_is_known_is_not_written_again() -> None:
    assert Shared(start_offset=3).persister.writes == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_start_that_cannot_be_written_fails_the_load(error: ErrorCode, told: ErrorCode) -> None:
    shared = Shared(start_offset=-1, loaded=False)
    shared.persister.waits = True
    answers = shared.load()
    shared.persister.answer_read()
    shared.persister.answer(error)
    assert (answers, shared.partition.state, shared.changes) == ([told], State.FAILED, 1)


def test_a_start_that_is_being_written_begins_nothing_for_a_leader_that_was_fenced() -> None:
    shared = Shared(start_offset=-1, loaded=False)
    shared.persister.waits = True
    answers = shared.load()
    shared.persister.answer_read()
    shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    shared.persister.answer()
    assert (answers, shared.partition.state) == ([ErrorCode.LEADER_NOT_AVAILABLE], State.FENCED)


def test_a_start_offset_that_cannot_be_found_fails_the_load() -> None:
    shared = Shared(start_offset=-1, loaded=False)
    shared.start = ErrorCode.OFFSET_NOT_AVAILABLE, -1
    assert shared.load() == [ErrorCode.OFFSET_NOT_AVAILABLE]
    assert shared.partition.state is State.FAILED


def test_dead_letters_of_an_earlier_leader_are_resumed() -> None:
    letters = Letters()
    shared = Shared(batches=[stored(0, 1, A, 1), stored(2, 4, G, 5), stored(5, 5, G, 1)], letters=letters)
    assert letters.given_up == [(2, 4, 5, GiveUpCause.RESUMED), (5, 5, 1, GiveUpCause.RESUMED)]
    assert shared.partition.state is State.ACTIVE


# --- fencing ---


def test_a_fenced_share_partition_has_no_locks_and_gives_nothing() -> None:
    shared = Shared()
    shared.acquire((0, 4))
    shared.acquire((5, 9), member="bob")
    shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert shared.partition.state is State.FENCED
    assert (shared.fenced, shared.changes) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], 1)
    assert (shared.parked(), shared.outcomes()) == ([], ["cancelled", "cancelled"])
    assert shared.acquire((10, 19)) == []
    assert shared.ack((0, 4, 1)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert shared.release() == [NONE]
    shared.partition.log_start_moved(7)
    shared.advance(60_000)
    shared.partition.fence(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert shared.load() == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert (shared.fenced, shared.persister.writes) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [])
    assert not shared.partition.may_acquire()


@pytest.mark.parametrize(
    ("error", "told"),
    [(NONE, NONE), (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
def test_acknowledgements_that_are_being_written_are_answered_after_it_was_fenced(
    error: ErrorCode, told: ErrorCode
) -> None:
    shared = Shared()
    shared.acquire((0, 4))
    shared.persister.waits = True
    answers = shared.ack((0, 4, 1))
    shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    shared.persister.answer(error)
    assert answers == [told]
    assert shared.fenced == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_it_may_be_fenced_while_it_is_loaded() -> None:
    shared = Shared(loaded=False)
    shared.persister.waits = True
    answers = shared.load()
    shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    shared.persister.answer_read()
    assert (shared.partition.state, answers) == (State.FENCED, [ErrorCode.LEADER_NOT_AVAILABLE])


# --- the fetch lock ---


# --- the end of a share session ---


def test_all_records_of_a_member_are_released() -> None:
    shared = Shared()
    shared.acquire((0, 4))
    shared.acquire((5, 9), member="bob")
    shared.acquire((10, 14))
    shared.ack((11, 12, 1))
    assert shared.release() == [NONE]
    assert shared.picture == "a1 a1 a1 a1 a1 q1 q1 q1 q1 q1 a1 k1 k1 a1 a1"
    assert shared.persister.writes[-1].batches == [(0, 4, A, 1), (10, 10, A, 1), (13, 14, A, 1)]
    assert shared.outcomes() == ["completed", "completed"]
    assert shared.release() == [NONE]
    assert shared.release("carl") == [NONE]
    assert len(shared.persister.writes) == 2


def test_what_is_released_is_written_in_the_order_of_offsets() -> None:
    shared = Shared(batches=[stored(0, 4, A, 1)])
    shared.acquire((5, 9), at=5)
    shared.acquire((0, 4), at=0)
    shared.release()
    assert shared.persister.writes[-1].batches == [(0, 4, A, 2), (5, 9, A, 1)]


def test_a_release_that_cannot_be_written_leaves_the_records_to_their_locks() -> None:
    shared = Shared()
    shared.acquire((0, 4))
    shared.persister.error = ErrorCode.NOT_COORDINATOR
    assert shared.release() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert shared.picture == "q1 q1 q1 q1 q1"
    shared.advance(30_000)
    assert shared.picture == "a1 a1 a1 a1 a1"


def test_a_release_leaves_what_is_being_acknowledged() -> None:
    shared = Shared()
    shared.acquire((0, 4))
    shared.persister.waits = True
    shared.ack((1, 2, 1))
    assert shared.release() == []
    assert shared.persister.writes[-1].batches == [(0, 0, A, 1), (3, 4, A, 1)]
    shared.persister.answer()
    shared.persister.answer()
    assert shared.picture == "a1 k1 k1 a1 a1"


def test_a_release_gives_up_what_reached_the_delivery_limit() -> None:
    shared = Shared(batches=[stored(0, 0, A, 4)])
    shared.acquire((0, 0))
    shared.release()
    assert shared.persister.writes[-1].batches == [(0, 0, X, 5)]
    assert shared.partition.start_offset == 1


# --- the start of the log ---


@pytest.mark.parametrize(
    ("offset", "picture", "start_offset", "next_offset", "locks"),
    [
        (1, "q1 q1 q1 k1 q1 q1 a1 a1 k1 k1", 1, 7, 2),
        (2, "q1 q1 k1 q1 q1 a1 a1 k1 k1", 2, 7, 1),
        (4, "q1 q1 a1 a1 k1 k1", 5, 7, 1),
        (5, "q1 q1 a1 a1 k1 k1", 5, 7, 1),
        (6, "q1 a1 a1 k1 k1", 6, 7, 1),
        (7, "a1 a1 k1 k1", 7, 7, 0),
        (8, "a1 k1 k1", 8, 8, 0),
        (9, "", 11, 11, 0),
        (10, "", 11, 11, 0),
        (11, "", 11, 11, 0),
        (50, "", 50, 50, 0),
    ],
)
def test_the_start_of_the_log_moves(offset: int, picture: str, start_offset: int, next_offset: int, locks: int) -> None:
    shared = Shared()
    shared.acquire((0, 1))
    shared.acquire((2, 6))
    shared.acquire((7, 10))
    shared.ack((4, 4, 1), (7, 8, 2), (9, 10, 1))
    shared.changes = 0
    shared.partition.log_start_moved(offset)
    assert shared.picture == picture
    assert (shared.partition.start_offset, shared.partition.next_fetch_offset()) == (start_offset, next_offset)
    assert (len(shared.parked()), shared.changes) == (locks, 1)
    assert shared.partition.in_flight.complete_count == picture.count("k")
    assert shared.partition.in_flight.record_count == len(picture.split())
    assert len(shared.persister.writes) == 1


@pytest.mark.parametrize("offset", [0, 4, 5])
def test_the_start_of_the_log_below_the_start_offset_changes_nothing(offset: int) -> None:
    shared = Shared(start_offset=5)
    shared.partition.log_start_moved(offset)
    assert (shared.partition.start_offset, shared.changes) == (5, 0)


@pytest.mark.parametrize("error", [NONE, ErrorCode.NETWORK_EXCEPTION])
@pytest.mark.parametrize(("offset", "left"), [(2, 2), (4, 0), (9, 0)])
def test_the_start_of_the_log_moves_over_what_is_being_written(error: ErrorCode, offset: int, left: int) -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.persister.waits = True
    answers = shared.ack((0, 3, 2))
    shared.partition.log_start_moved(offset)
    assert shared.picture == " ".join(["q1!"] * left)
    shared.persister.answer(error)
    assert len(answers) == 1
    assert shared.picture == " ".join(["q1" if error else "a1"] * left)
    assert len(shared.parked()) == (1 if error and left else 0)
    assert shared.partition.in_flight.complete_count == 0


def test_the_start_of_the_log_is_told_with_the_next_write() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.partition.log_start_moved(2)
    shared.ack((3, 3, 1))
    (write,) = shared.persister.writes
    assert (write.start_offset, write.delivery_complete_count, write.batches) == (2, 1, [(3, 3, K, 1)])


# --- dead letters ---


def test_archiving_keeps_the_start_offset_until_it_ends() -> None:
    letters = Letters()
    shared = Shared(letters=letters)
    shared.acquire((0, 4))
    shared.ack((0, 2, 3), (3, 4, 1))
    assert letters.given_up == [(0, 2, 1, GiveUpCause.REJECTED)]
    assert (shared.picture, shared.partition.start_offset) == ("g1 g1 g1 k1 k1", 0)
    shared.partition.archived([Archived(1, 1, 1, is_dead_letter=True)])
    assert (shared.picture, shared.partition.start_offset) == ("g1 x1 g1 k1 k1", 0)
    assert [batch.is_dead_letter for batch in shared.partition.in_flight] == [False, True, False, False]
    assert shared.persister.writes[-1].batches == [(1, 1, X, 1)]
    shared.partition.archived([Archived(2, 2, 1, is_dead_letter=False), Archived(0, 0, 1, is_dead_letter=True)])
    assert shared.persister.writes[-1].batches == [(0, 0, X, 1), (2, 2, X, 1)]
    assert (shared.partition.start_offset, shared.persister.writes[-1].start_offset) == (5, 5)
    writes = len(shared.persister.writes)
    shared.partition.archived([Archived(0, 9, 1, is_dead_letter=True)])
    assert (shared.partition.start_offset, len(shared.persister.writes)) == (5, writes)


def test_records_are_archived_though_that_could_not_be_written() -> None:
    shared = Shared(letters=Letters())
    shared.acquire((0, 1))
    shared.ack((0, 0, 3))
    shared.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    shared.partition.archived([Archived(0, 0, 1, is_dead_letter=True)])
    assert (shared.picture, shared.partition.start_offset) == ("q1", 1)
    assert shared.fenced == []


def test_neighbours_with_and_without_dead_letters_are_told_apart() -> None:
    shared = Shared(letters=Letters())
    shared.acquire((0, 3))
    shared.ack((1, 3, 3))
    shared.partition.archived([Archived(1, 1, 1, is_dead_letter=True), Archived(2, 3, 1, is_dead_letter=False)])
    told = [(batch.first_offset, batch.last_offset, batch.is_dead_letter) for batch in shared.partition.in_flight]
    assert told == [(0, 0, False), (1, 1, True), (2, 3, False)]


def test_what_the_end_of_the_last_session_gives_up_is_copied_and_archived_in_its_state() -> None:
    letters = Letters()
    shared = Shared(batches=[stored(0, 1, A, 4)], letters=letters)
    shared.acquire((0, 1))
    shared.persister.waits = True
    shared.release()
    shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert letters.given_up == []
    shared.persister.answer()
    assert letters.given_up == [(0, 0, 5, GiveUpCause.DELIVERY_LIMIT)]
    shared.partition.archived([Archived(0, 0, 5, is_dead_letter=True)])
    write = shared.persister.writes[-1]
    assert (write.start_offset, write.delivery_complete_count, write.batches) == (-1, -1, [(0, 0, X, 5)])


def test_what_was_given_up_in_a_write_that_failed_is_not_copied_without_a_session() -> None:
    letters = Letters()
    shared = Shared(batches=[stored(0, 1, A, 4)], letters=letters)
    shared.acquire((0, 1))
    shared.persister.waits = True
    shared.release()
    shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    shared.persister.answer(ErrorCode.FENCED_LEADER_EPOCH)
    assert letters.given_up == []


def test_records_whose_last_lock_runs_out_become_dead_letters() -> None:
    letters = Letters()
    shared = Shared(batches=[stored(0, 1, A, 1)], letters=letters, settings=ShareSettings(delivery_count_limit=2))
    shared.acquire((0, 1))
    shared.advance(30_000)
    assert letters.given_up == [(0, 1, 2, GiveUpCause.DELIVERY_LIMIT)]
    assert shared.persister.writes[-1].batches == [(0, 1, G, 2)]
