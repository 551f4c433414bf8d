"""Records in flight become batches of state and come back; errors of the persister are told to clients as in Kafka."""

from __future__ import annotations

import pytest

from purgatorio.broker.share.in_flight import RecordsInFlight
from purgatorio.broker.share.stored_state import FENCING, client_error, in_flight, state_batches
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState
from tests.broker.share.harness import stored

A, Q, K, G, X = RecordState


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([], []),
        ([(0, 1, A, 1)], [(0, 1, A, 1)]),
        ([(0, 1, A, 1), (2, 3, A, 1)], [(0, 3, A, 1)]),
        ([(0, 1, A, 1), (2, 3, A, 2)], [(0, 1, A, 1), (2, 3, A, 2)]),
        ([(0, 1, A, 1), (2, 3, K, 1)], [(0, 1, A, 1), (2, 3, K, 1)]),
        ([(0, 1, K, 1), (2, 3, K, 1), (4, 4, K, 1), (5, 5, X, 1)], [(0, 4, K, 1), (5, 5, X, 1)]),
    ],
)
def test_neighbours_that_are_alike_are_written_as_one(
    batches: list[tuple[int, int, RecordState, int]], expected: list[tuple[int, int, RecordState, int]]
) -> None:
    made = RecordsInFlight(0)
    kept = [made.append(last, state, deliveries) for _, last, state, deliveries in batches]
    assert state_batches(kept) == [stored(*each) for each in expected]


def test_what_lies_between_is_not_written() -> None:
    made = RecordsInFlight(0)
    kept = [made.append(last, K, 1) for last in (1, 2, 4)]
    assert state_batches([kept[0], kept[2]]) == [stored(0, 1, K, 1), stored(3, 4, K, 1)]


def test_the_state_that_is_being_written_is_the_target() -> None:
    made = RecordsInFlight(0)
    batch = made.append(1, Q, 3)
    made.begin(batch, K)
    assert state_batches([batch]) == [stored(0, 1, K, 3)]


def test_each_stored_batch_was_delivered_together() -> None:
    """The next delivery of a record that fails is half as large as what is stored of it, as in Kafka."""
    made = in_flight(0, [stored(0, 9, A, 3), stored(10, 14, A, 3)])
    assert [batch.delivered_with for batch in made] == [10, 5]


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH])
def test_a_fenced_leader_is_none_to_clients(error: ErrorCode) -> None:
    assert client_error(error) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error in FENCING


def test_errors_that_kafka_does_not_name_are_unknown() -> None:
    assert client_error(ErrorCode.INVALID_REQUEST) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert client_error(ErrorCode.NONE) is ErrorCode.NONE
