"""Idempotent and transactional producers, at a log and alone."""

from __future__ import annotations

from array import array

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import (
    InvalidTransactionState,
    OutOfOrderSequence,
    StaleCoordinatorEpoch,
    StaleProducerEpoch,
    TooManyTransactions,
)
from purgatorio.broker.log.log import AppendInfo, Log
from purgatorio.broker.log.producer_state import BATCHES_KEPT, ProducerStates
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import MAX_SEQUENCE


@pytest.fixture
def log() -> Log:
    return Log(LogConfig())


@pytest.fixture
def send(log: Log, batch_of):
    """A function that appends a batch of one producer."""

    def append(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, **options) -> AppendInfo:
        batch = batch_of(*[b"v"] * count, producer=(producer_id, epoch, sequence), **options)
        return log.append_as_leader(batch, leader_epoch=0, wall_ms=2000)

    return append


@pytest.fixture
def end_transaction(log: Log):
    """A function that appends a marker."""

    def append(
        *, committed: bool = True, epoch: int = 0, producer_id: int = 7, coordinator_epoch: int = 3
    ) -> AppendInfo:
        marker = EndMarker(committed, coordinator_epoch)
        batch = build_end_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=1000)
        return log.append_as_leader(batch, leader_epoch=0, wall_ms=2000, from_client=False)

    return append


def test_sequences_that_follow_each_other_are_appended(log: Log, send) -> None:
    assert [send(0, 3).first_offset, send(3, 2).first_offset, send(5).first_offset] == [0, 3, 5]
    assert log.log_end_offset == 6


def test_each_of_the_last_five_batches_is_recognised_as_a_duplicate(log: Log, send) -> None:
    for sequence in range(0, 14, 2):
        send(sequence, 2)
    for sequence in range(4, 14, 2):
        info = send(sequence, 2)
        assert info.duplicate
        assert (info.first_offset, info.last_offset) == (sequence, sequence + 1)
        assert (info.size_bytes, info.record_count) == (0, 0)
    assert log.log_end_offset == 14
    with pytest.raises(OutOfOrderSequence):
        send(2, 2)
    assert BATCHES_KEPT == 5


def test_a_duplicate_of_a_log_with_append_times_tells_the_first_one(batch_of) -> None:
    log = Log(LogConfig(message_timestamp_type="LogAppendTime"))
    batch = batch_of(b"v", producer=(7, 0, 0))
    assert log.append_as_leader(batch, leader_epoch=0, wall_ms=5000).log_append_time_ms == 5000
    again = log.append_as_leader(batch, leader_epoch=0, wall_ms=9000)
    assert again.duplicate
    assert again.log_append_time_ms == 5000


def test_a_gap_is_out_of_order_and_changes_nothing(log: Log, send) -> None:
    send(0, 3)
    with pytest.raises(OutOfOrderSequence) as caught:
        send(4)
    assert caught.value.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 3
    assert send(3).first_offset == 3


def test_an_overlap_is_no_duplicate(send) -> None:
    send(0, 3)
    for sequence, count in ((0, 2), (1, 2), (2, 2), (0, 4)):
        with pytest.raises(OutOfOrderSequence):
            send(sequence, count)


def test_zero_follows_the_highest_sequence(log: Log, send) -> None:
    send(MAX_SEQUENCE - 1, 2)
    assert send(0).first_offset == 2
    assert send(1).first_offset == 3
    assert send(MAX_SEQUENCE - 1, 2).duplicate
    assert log.producers.get(7).next_sequence == 2


def test_a_batch_may_wrap_around_within_itself(log: Log, send) -> None:
    send(MAX_SEQUENCE, 3)
    assert log.producers.get(7).batches[-1][:2] == (MAX_SEQUENCE, 1)
    assert send(MAX_SEQUENCE, 3).duplicate
    assert send(2).first_offset == 3


def test_an_unknown_producer_may_start_anywhere(send) -> None:
    """Its records may have been deleted; an error here would be fatal for the client (KAFKA-7190)."""
    assert send(41).first_offset == 0
    with pytest.raises(OutOfOrderSequence):
        send(43)


def test_a_lower_epoch_is_fenced(log: Log, send) -> None:
    send(0, epoch=3)
    with pytest.raises(StaleProducerEpoch) as caught:
        send(1, epoch=2)
    assert caught.value.error_code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1


def test_a_new_epoch_starts_with_sequence_zero_and_forgets_the_batches_of_the_old(log: Log, send) -> None:
    send(0, 5)
    with pytest.raises(OutOfOrderSequence):
        send(5, epoch=1)
    assert not send(0, 5, epoch=1).duplicate
    assert send(5, epoch=1).first_offset == 10


def test_producers_do_not_mix(send) -> None:
    send(0, producer_id=1)
    assert send(0, producer_id=2).first_offset == 1
    assert send(1, producer_id=1).first_offset == 2


def test_plain_batches_leave_no_state(log: Log, batch_of) -> None:
    log.append_as_leader(batch_of(b"v"), leader_epoch=0, wall_ms=0)
    assert len(log.producers) == 0


def test_the_brokers_own_batches_are_checked_for_their_epoch_only(log: Log, batch_of, send) -> None:
    send(0, epoch=2)
    offsets = batch_of(b"offset", producer=(7, 2, -1), transactional=True)
    assert log.append_as_leader(offsets, leader_epoch=0, wall_ms=0, from_client=False).first_offset == 1
    with pytest.raises(StaleProducerEpoch):
        log.append_as_leader(batch_of(b"offset", producer=(7, 1, -1)), leader_epoch=0, wall_ms=0, from_client=False)


def test_the_idlest_producer_is_forgotten_when_there_are_too_many(log: Log, send) -> None:
    log.producers.max_producers = 3
    for producer_id in (1, 2, 3, 1, 4):
        send(0 if producer_id != 1 or log.producers.get(1) is None else 1, producer_id=producer_id)
    assert [producer_id for producer_id, _ in log.producers] == [3, 1, 4]
    assert send(9, producer_id=2).first_offset == 5


def test_a_producer_within_a_transaction_is_not_forgotten(log: Log, send) -> None:
    log.producers.max_producers = 1
    send(0, producer_id=1, transactional=True)
    send(0, producer_id=2)
    send(0, producer_id=3)
    assert [producer_id for producer_id, _ in log.producers] == [1, 3]


def test_idle_producers_expire_but_not_within_a_transaction(log: Log, send) -> None:
    send(0, producer_id=1)
    send(0, producer_id=2, transactional=True)
    expiration_ms = log.producers.expiration_ms
    log.apply_retention(2000 + expiration_ms - 1, 0)
    assert len(log.producers) == 2
    log.apply_retention(2000 + expiration_ms, 0)
    assert [producer_id for producer_id, _ in log.producers] == [2]


def test_without_transactions_everything_committed_is_stable(log: Log, send) -> None:
    send(0, 4)
    assert log.last_stable_offset(3) == 3


def test_an_open_transaction_holds_the_stable_offset_back(log: Log, send, end_transaction) -> None:
    send(0, 2, producer_id=1)
    send(0, 2, producer_id=2, transactional=True)
    send(0, 2, producer_id=3, transactional=True)
    assert [log.last_stable_offset(hw) for hw in (1, 2, 6)] == [1, 2, 2]
    end_transaction(producer_id=2)
    assert log.last_stable_offset(7) == 4
    end_transaction(producer_id=3, committed=False)
    assert log.last_stable_offset(8) == 8


def test_a_transaction_is_stable_only_when_its_marker_is_committed(log: Log, send, end_transaction) -> None:
    send(0, 2, transactional=True)
    end_transaction()
    assert [log.last_stable_offset(hw) for hw in (1, 2, 3)] == [0, 0, 3]
    assert log.producers.get(7).coordinator_epoch == 3


def test_a_plain_batch_within_a_transaction_is_refused(log: Log, send) -> None:
    send(0, transactional=True)
    with pytest.raises(InvalidTransactionState) as caught:
        send(1)
    assert caught.value.error_code is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_a_new_epoch_fences_the_old(log: Log, send, end_transaction) -> None:
    send(0, transactional=True)
    end_transaction(epoch=1, committed=False)
    with pytest.raises(StaleProducerEpoch):
        send(1, transactional=True)
    with pytest.raises(OutOfOrderSequence):
        send(1, epoch=1)
    assert send(0, epoch=1).first_offset == 2


def test_a_control_batch_that_ends_nothing_changes_nothing(log: Log, batch_of) -> None:
    """Neither an unknown kind of marker nor one that cannot be read stops the append of what a broker made."""
    for key in (b"\x00\x00\x00\x05", b"?"):
        batch = batch_of(b"", keys=(key,), producer=(7, 0, -1), control=True, transactional=True)
        log.append_as_leader(batch, leader_epoch=0, wall_ms=0, from_client=False)
    assert len(log.producers) == 0
    assert log.log_end_offset == 2


def test_a_truncated_log_restores_its_producers_state(send, log: Log, end_transaction) -> None:
    send(0, 2)
    send(2, 2, transactional=True)
    before = describe(log.producers)
    send(4, transactional=True)
    end_transaction()
    send(0, producer_id=8)
    log.truncate_to(4)
    assert describe(log.producers) == before
    assert log.last_stable_offset(4) == 2
    assert send(4, transactional=True).first_offset == 4


@pytest.mark.parametrize("cut", range(0, 40))
def test_truncation_restores_producers_from_snapshots_of_segments(batch_of, cut: int) -> None:
    """Whether a snapshot is near or the whole log must be replayed, the outcome is the same."""
    log, truncated = Log(LogConfig(segment_bytes=400)), Log(LogConfig(segment_bytes=400))
    for n in range(40):
        batch = batch_of(b"v", producer=(n % 3, 0, n // 3))
        truncated.append_as_leader(batch, leader_epoch=0, wall_ms=n)
        if n < cut:
            log.append_as_leader(batch, leader_epoch=0, wall_ms=n)
    assert truncated.segment_count > 5
    truncated.truncate_to(cut)
    assert describe(truncated.producers) == describe(log.producers)


def test_the_snapshots_of_segments_share_the_states_of_transactions_that_hang(batch_of) -> None:
    """Otherwise 5,000 of them take 4 MB for each segment, which no budget counts."""
    log = Log(LogConfig(segment_bytes=400))
    for producer_id in (1, 2):
        batch = batch_of(b"v", producer=(producer_id, 0, 0), transactional=True)
        log.append_as_leader(batch, leader_epoch=0, wall_ms=0)
    for n in range(40):
        batch = batch_of(b"v", producer=(2, 0, n + 1), transactional=True)
        log.append_as_leader(batch, leader_epoch=0, wall_ms=n)
    older = [
        segment.producers.states for segment in log._segments if segment.producers and segment.producers.is_reduced
    ]
    assert len(older) > 5
    assert len({id(states[1]) for states in older}) == 1, "it hangs"
    assert len({id(states[2]) for states in older}) == len(older), "it goes on"
    log.truncate_to(log._segments[3].base_offset)
    assert log.last_stable_offset(log.log_end_offset) == 0


def test_a_follower_takes_over_what_the_leader_checked(send, log: Log, end_transaction) -> None:
    send(3, 2)
    send(5, transactional=True)
    end_transaction(committed=False)
    send(6)
    follower = Log(LogConfig())
    follower.append_as_follower(b"".join(log.read(0, max_bytes=10**6, end_offset=99).parts), wall_ms=2000)
    assert describe(follower.producers) == describe(log.producers)


def describe(producers: ProducerStates) -> dict[int, tuple]:
    return {
        producer_id: (state.epoch, state.coordinator_epoch, list(state.batches), state.transaction_start)
        for producer_id, state in producers
    }


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused(log: Log, send, end_transaction) -> None:
    send(0, transactional=True)
    end_transaction(coordinator_epoch=3)
    send(1, transactional=True)
    with pytest.raises(StaleCoordinatorEpoch) as caught:
        end_transaction(coordinator_epoch=2)
    assert caught.value.error_code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (log.log_end_offset, log.last_stable_offset(3)) == (3, 2)
    end_transaction(coordinator_epoch=4)
    assert log.producers.get(7).coordinator_epoch == 4


def test_a_marker_of_an_older_producer_epoch_is_refused(log: Log, send, end_transaction) -> None:
    send(0, epoch=2, transactional=True)
    with pytest.raises(StaleProducerEpoch):
        end_transaction(epoch=1)
    assert log.last_stable_offset(1) == 0


def test_a_marker_without_an_open_transaction_is_appended(log: Log, end_transaction) -> None:
    """A coordinator repeats a marker until it hears that the log has it."""
    end_transaction(committed=False)
    end_transaction(committed=False)
    assert (log.log_end_offset, log.last_stable_offset(2), len(log.producers.aborted)) == (2, 2, 0)


def test_a_log_takes_a_bounded_number_of_open_transactions(log: Log, batch_of, send, end_transaction) -> None:
    log.producers.max_open = 2
    send(0, producer_id=1, transactional=True)
    send(0, producer_id=2, transactional=True)
    with pytest.raises(TooManyTransactions) as caught:
        send(0, producer_id=3, transactional=True)
    assert caught.value.error_code.retriable
    own = batch_of(b"offset", producer=(3, 0, -1), transactional=True)
    with pytest.raises(TooManyTransactions):
        log.append_as_leader(own, leader_epoch=0, wall_ms=0, from_client=False)
    assert send(1, producer_id=2, transactional=True).first_offset == 2
    assert send(0, producer_id=4).first_offset == 3
    end_transaction(producer_id=1)
    assert send(0, producer_id=3, transactional=True).first_offset == 5


def test_aborted_transactions_are_forgotten_with_their_markers(log: Log, send, end_transaction) -> None:
    send(0, transactional=True)
    end_transaction(committed=False)
    send(1, transactional=True)
    end_transaction(committed=True)
    assert log.aborted_transactions(0, 4) == (array("q", [0]), array("q", [7]))
    log.advance_log_start(1)
    assert len(log.producers.aborted) == 1
    log.advance_log_start(2)
    assert len(log.producers.aborted) == 0


def test_the_transaction_that_holds_readers_back_is_known_with_the_time_of_its_start(
    log: Log, send, end_transaction
) -> None:
    assert log.producers.oldest_unstable() is None
    send(0, producer_id=1, transactional=True)
    send(0, producer_id=2, transactional=True)
    assert log.producers.oldest_unstable() == (1, 2000)
    end_transaction(producer_id=1)
    assert log.producers.oldest_unstable() == (1, -1)
    assert log.last_stable_offset(3) == 1
    assert log.producers.oldest_unstable() == (2, 2000)
