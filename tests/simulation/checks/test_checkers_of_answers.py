"""Checks of all that brokers told: what was polled stays, no offset is skipped, no leader goes back."""

from __future__ import annotations

import pytest

from purgatorio.simulation.checks.checkers import check
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Assigned,
    Cleaned,
    Drained,
    History,
    LeaderElected,
    Polled,
    Sent,
    SequenceRefused,
    TopicRecreated,
    UncleanElection,
    Unknown,
)

P = "orders-0"


def sent(*values: int) -> list[Event]:
    return [Sent(1, "p", P, value, value) for value in values]


def acked(value: int, offset: int, at_ms: int = 2, *, acks: int = -1, broker: int = 1, epoch: int = 5) -> Event:
    return Acked(at_ms, "p", P, value, offset, acks, broker, epoch)


def polled(
    *records: tuple[int, int],
    high_watermark: int = -1,
    consumer: str = "c",
    at_ms: int = 9,
    asked_ms: int = -1,
    final: bool = False,
    broker: int = 1,
    epoch: int = 5,
    follower: bool = False,
) -> Event:
    return Polled(at_ms, consumer, P, records, high_watermark, final, broker, epoch, follower, asked_ms)


def names(*events: Event) -> list[str]:
    history = History()
    for event in events:
        history.record(event)
    return [anomaly.name for anomaly in check(history)]


# --- what was polled stays ---


def test_a_polled_value_of_unknown_outcome_that_is_gone_in_the_end_has_vanished() -> None:
    unknown = [*sent(1, 2), Unknown(2, "p", P, 2, "lost"), polled((0, 1), (1, 2))]
    assert names(*unknown, polled((0, 1), final=True, consumer="f"), Drained(9, P, 0, 2)) == ["vanished"]
    assert names(*unknown, polled((0, 1), (1, 2), final=True, consumer="f"), Drained(9, P, 0, 2)) == []


def test_a_polled_value_of_acks_1_that_is_gone_in_the_end_has_vanished() -> None:
    events = [*sent(1), acked(1, 0, acks=1), polled((0, 1)), Drained(9, P, 0, 1)]
    assert names(*events) == ["vanished"], "it was below the high watermark when it was polled"


def test_what_lies_past_the_end_of_the_final_read_is_not_missed() -> None:
    read = [polled((0, 1), final=True, consumer="f"), polled((0, 1), (1, 2))]
    assert names(*sent(1, 2), *read, Drained(9, P, 0, 1)) == []


def test_what_was_polled_before_an_unclean_election_may_vanish() -> None:
    assert names(*sent(1), polled((0, 1)), UncleanElection(4, P), Drained(9, P, 0, 1)) == []


def test_what_retention_or_deletion_took_has_not_vanished() -> None:
    before = [*sent(1, 2), acked(1, 0), Cleaned(1, P, True, 0), polled((0, 1), (1, 2))]
    final = [polled((1, 2), final=True, consumer="f"), Drained(9, P, 1, 2)]
    assert names(*before, *final) == []
    assert names(*before[:3], *before[4:], *final) == ["unseen", "gap"], "without a policy that deletes"
    gone = [*before, Drained(9, P, 0, 2)]
    assert names(*gone) == ["unseen", "vanished"], "the log starts before them"


def test_of_a_compacted_log_the_last_value_of_each_key_stays() -> None:
    compacted = [Cleaned(1, P, False, 10), *sent(1, 11, 12), acked(1, 0), acked(11, 1), acked(12, 2)]
    read = [Assigned(2, "f", P, 0)]
    assert names(*compacted, *read, polled((1, 11), (2, 12), final=True, consumer="f"), Drained(9, P, 0, 3)) == []
    lost = [polled((0, 1), (2, 12), final=True, consumer="f"), Drained(9, P, 0, 3)]
    assert names(*compacted, *read, *lost) == ["lost-write", "unseen"]
    again = [polled((0, 1), (1, 11), (2, 12)), *read, polled((2, 12), final=True, consumer="f"), Drained(9, P, 0, 3)]
    assert names(*compacted, *again) == ["unseen", "poll-skip"], "the last value of its key was polled and is gone"


def test_a_compacted_topic_that_is_created_again_was_judged_by_its_own_records() -> None:
    """Seed 409: the records of a deleted topic were compared with the keys of the one that has its name now."""
    begun = [Cleaned(1, P, False, 10), *sent(1, 2, 11, 21), acked(1, 0), acked(2, 1), acked(11, 2)]
    read = [Assigned(2, "c", P, 0), polled((1, 2), (2, 11))]
    again = [TopicRecreated(10, P), LeaderElected(10, P, 1, 0)]
    assert names(*begun, *read, *again) == []
    unread = [*begun[:-1], acked(11, 3), *sent(3), acked(3, 2), Assigned(2, "c", P, 0), polled((1, 2), (2, 3))]
    assert names(*unread, *again) == [], "the later value of its key was not polled before the topic was deleted"
    lost = [*begun, Assigned(2, "c", P, 0), polled((0, 1), (2, 11))]
    assert names(*lost, *again) == ["lost-write"], "no later value has the key of 2"


# --- contiguity ---


def test_an_offset_that_no_poll_fills_is_a_gap() -> None:
    assert names(*sent(1, 2), polled((0, 1), (2, 2))) == ["gap"]
    assert names(*sent(1, 2), polled((0, 1)), polled((2, 2))) == ["gap"], "between two polls"
    assert names(*sent(1, 2), Assigned(1, "c", P, 0), polled((1, 2))) == ["gap"], "after the assignment"
    assert names(*sent(1, 2), polled((0, 1), (1, 2))) == []


def test_a_log_that_begins_at_3_though_nothing_may_be_deleted_has_a_gap() -> None:
    final = [polled((3, 1), final=True), Drained(9, P, 3, 4)]
    assert names(*sent(1), *final) == ["gap"]
    assert names(*sent(1), Cleaned(1, P, True, 0), *final) == []


# --- positions ---


def test_a_consumer_that_a_broker_sends_back_is_found_although_its_assignment_is_new() -> None:
    read = [*sent(1, 2), Assigned(1, "c", P, 0), polled((0, 1), (1, 2))]
    assert names(*read, Assigned(3, "c", P, 0, True), polled((0, 1), (1, 2))) == ["consumer-reset"]
    assert names(*read, Assigned(3, "c", P, 0), polled((0, 1), (1, 2))) == [], "it begins anew of itself"
    assert names(*read, Assigned(3, "c", P, 5, True)) == [], "what it would read next was deleted"
    assert names(*read, UncleanElection(3, P), Assigned(3, "c", P, 0, True)) == []


# --- high watermarks ---


def test_a_high_watermark_that_goes_back_in_one_assignment_is_found() -> None:
    two = [*sent(1, 2), polled((0, 1), high_watermark=5, at_ms=3)]
    assert names(*two, polled((1, 2), high_watermark=2, at_ms=4)) == ["watermark-regress"]
    assert names(*two, polled((1, 2), high_watermark=5, at_ms=4)) == []
    assert names(*two, polled((1, 2), high_watermark=2, broker=2, epoch=6)) == [], "a new leader may know less"
    assert names(*two, UncleanElection(4, P), polled(high_watermark=2, at_ms=5)) == []


def test_a_history_without_brokers_counts_as_one_of_a_single_leader() -> None:
    first, second = Polled(3, "c", P, ((0, 1),), 5), Polled(4, "c", P, ((1, 2),), 2)
    assert names(*sent(1, 2), first, second) == ["watermark-regress"]


def test_a_high_watermark_that_goes_back_at_one_leader_is_found_over_two_consumers() -> None:
    first = [*sent(1), polled((0, 1), high_watermark=5, at_ms=3, asked_ms=1)]
    assert names(*first, polled((0, 1), high_watermark=2, consumer="d", at_ms=8, asked_ms=4)) == ["watermark-regress"]
    assert names(*first, polled((0, 1), high_watermark=2, consumer="d", at_ms=8, asked_ms=3)) == [], "at the same time"


def test_an_acknowledgement_beyond_a_later_high_watermark_of_its_leader_is_found() -> None:
    ack = [*sent(1, 2), acked(2, 5, at_ms=2)]
    assert names(*ack, polled((0, 1), high_watermark=5, asked_ms=3)) == ["watermark-regress"]
    assert names(*ack, polled((0, 1), high_watermark=6, asked_ms=3)) == []
    assert names(*ack, polled((0, 1), high_watermark=5, asked_ms=2)) == [], "it was asked for before"
    assert names(*ack, polled((0, 1), high_watermark=5, asked_ms=3, epoch=6)) == [], "a new leader may know less"
    assert names(*sent(2), acked(2, 5, acks=1), polled(high_watermark=5, asked_ms=3)) == [], "not by all replicas"


def test_a_former_leader_that_answers_without_what_its_successor_acknowledged_is_found() -> None:
    ack = [*sent(1, 2), acked(2, 1, at_ms=2, broker=2, epoch=6)]
    assert names(*ack, polled((0, 1), high_watermark=1, asked_ms=3)) == ["stale-read"]
    assert names(*ack, polled((0, 1), high_watermark=1, asked_ms=1)) == []
    assert names(*ack, polled((0, 1), high_watermark=1, asked_ms=3, follower=True)) == [], "a follower may lag"


# --- acks=1 ---


@pytest.mark.parametrize("acks", [1, -1])
def test_two_values_that_one_leader_acknowledged_at_one_offset_are_found(acks: int) -> None:
    first = [*sent(1, 2), acked(1, 0, acks=1)]
    assert names(*first, acked(2, 0, acks=acks)) == ["inconsistent-offsets"]
    assert names(*first, acked(2, 0, acks=acks, broker=2, epoch=6)) == [], "acks=1 was lost, and its offset taken"
    assert names(*first, acked(1, 0, acks=acks)) == [], "it was sent again"


def test_a_producer_whose_leader_epoch_had_ended_proves_nothing_of_that_epoch() -> None:
    first = [*sent(1, 2, 3), acked(1, 0, acks=1)]
    assert names(*first, acked(2, 0, acks=1)) == ["inconsistent-offsets"]
    for later in (
        polled((0, 3), high_watermark=1, epoch=7),
        acked(3, 4, epoch=7),
        LeaderElected(2, P, 1, 7),
    ):
        assert names(*first, later, acked(2, 0, acks=1)) == [], "broker 1 may lead again, in a later epoch"


def test_a_producer_that_takes_a_broker_for_the_leader_of_an_earlier_epoch_makes_no_anomaly() -> None:
    """Seed 1 of long runs had it: broker 1 led again after 51 ms, and the first of its clients was a producer."""
    elected = [LeaderElected(3, P, 3, 6), LeaderElected(4, P, 1, 7)]
    assert names(*sent(1, 2), acked(1, 0, acks=1), *elected, acked(2, 0, acks=1), polled((0, 2))) == []


def test_a_topic_that_was_created_again_begins_a_new_log_with_its_first_leader_epoch() -> None:
    first = [*sent(1), acked(1, 0), LeaderElected(2, P, 1, 5), polled((0, 1), high_watermark=9)]
    again = [TopicRecreated(10, P), LeaderElected(10, P, 1, 0), Sent(11, "p", P, 2, 2)]
    own = [acked(2, 0, at_ms=12, epoch=0), polled((0, 2), high_watermark=1, at_ms=13, epoch=0)]
    read = [polled((0, 2), at_ms=14, epoch=0, final=True, consumer="f"), Drained(14, P, 0, 1)]
    assert names(*first, *again, *own, *read) == []
    assert "inconsistent-offsets" in names(*first, *again[1:], *own, *read)
    late = [Sent(12, "p", P, 3, 3), acked(3, 0, at_ms=12, epoch=0, acks=1)]
    assert "inconsistent-offsets" in names(*first, *again, *own, *late, *read)


def test_an_idempotent_producer_that_is_told_of_sequences_out_of_order_is_found() -> None:
    assert names(SequenceRefused(1, "p", P, 2, 7)) == ["sequence-refused"]
