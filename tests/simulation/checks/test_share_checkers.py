"""The checks of share groups find each anomaly, and nothing in what members and faults may cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from purgatorio.broker.share.acknowledging import AcknowledgeType
from purgatorio.protocol.dead_letter import DELIVERY_LIMIT, REJECTED
from purgatorio.simulation.checks.share_checkers import SHARE_CHECKS, check_shares
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Cleaned,
    GroupTransforms,
    History,
    LeaderElected,
    Polled,
    TxnEnded,
    TxnWrote,
    UncleanElection,
)
from purgatorio.simulation.history.share_events import (
    DeadLetter,
    DeadLetterPromise,
    DeadLettersLost,
    ShareAcknowledged,
    ShareAcquired,
    ShareEnded,
    ShareGivenUp,
    SharePromise,
    ShareWriteFailed,
)

G, P = "workers", "orders-0"
ACCEPT, RELEASE, RENEW = (
    int(each) for each in (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW)
)
PROMISE = SharePromise(0, G, lock_ms=1_000, delivery_limit=2)


def names(*events: Event) -> list[str]:
    history = History()
    for event in (PROMISE, *sorted(events, key=lambda event: event.time_ms)):
        history.record(event)
    return [anomaly.name for anomaly in check_shares(history)]


def got(
    asked_ms: int, time_ms: int, member: str, count: int = 1, *, offsets: tuple[int, int] = (5, 5)
) -> ShareAcquired:
    values = tuple((offset, 100 + offset) for offset in range(offsets[0], offsets[1] + 1))
    return ShareAcquired(time_ms, G, member, P, *offsets, count, asked_ms, 1, values)


def told(asked_ms: int, time_ms: int, member: str, kind: int = ACCEPT, outcome: str = "acked") -> ShareAcknowledged:
    return ShareAcknowledged(time_ms, G, member, P, 5, 5, (kind,), asked_ms, outcome)


def test_every_check_has_a_sentence() -> None:
    assert all(meaning.endswith(".") for meaning in SHARE_CHECKS.values())


def test_a_history_without_share_groups_has_nothing_to_check() -> None:
    history = History()
    history.record(Acked(1, "a", P, 1, 0, -1))
    assert check_shares(history) == []


# --- one member at a time ---

FIRST, SECOND = got(0, 10, "a"), got(100, 110, "b", 2)


def test_a_record_that_a_member_has_is_no_other_members() -> None:
    assert names(FIRST, SECOND) == ["double-acquire"]
    assert names(got(0, 10, "a", offsets=(3, 7)), got(100, 110, "b", 2, offsets=(7, 9))) == ["double-acquire"]
    assert names(got(0, 10, "a", offsets=(3, 4)), got(100, 110, "b", offsets=(5, 9))) == [], "other records"


def test_a_member_has_a_record_until_its_lock_may_be_over() -> None:
    assert names(FIRST, got(100, 905, "b", 2)) == [], "the broker's clock may be fast"
    assert names(got(0, 120, "a"), SECOND) == [], "it may have been acquired after that"


@pytest.mark.parametrize(
    "end",
    [
        told(50, 60, "a", RELEASE, "unknown"),
        ShareEnded(50, G, "a", P),
        ShareEnded(50, G, "", P),
        LeaderElected(50, P, 2, 3),
    ],
    ids=["told", "session", "fence", "leader"],
)
def test_a_member_has_a_record_until_that_ends(end: Event) -> None:
    assert names(FIRST, end, SECOND) == []


def test_the_end_of_another_members_session_ends_nothing() -> None:
    assert names(FIRST, ShareEnded(50, G, "b", P), SECOND) == ["double-acquire"]
    assert names(FIRST, ShareEnded(50, G, "a", "orders-1"), SECOND) == ["double-acquire"]


def test_a_renewal_that_counts_begins_the_time_anew() -> None:
    renewed = told(800, 810, "a", RENEW)
    assert names(FIRST, renewed, got(1_100, 1_200, "b", 2)) == ["double-acquire"]
    assert names(FIRST, replace(renewed, outcome="refused"), got(1_100, 1_200, "b", 2)) == []


# --- for the last time ---


def test_a_record_whose_acceptance_was_answered_is_not_delivered_again() -> None:
    accepted = told(20, 30, "a")
    assert names(FIRST, accepted, got(40, 50, "b", 2)) == ["redelivered"]
    assert names(FIRST, accepted, LeaderElected(35, P, 2, 3), got(40, 50, "b")) == ["redelivered"], (
        "nor by another leader"
    )
    assert names(FIRST, accepted, got(25, 50, "b", 2)) == [], "asked before the answer"
    assert names(FIRST, replace(accepted, outcome="unknown"), got(40, 50, "b", 2)) == []
    assert names(FIRST, told(20, 30, "a", RELEASE), got(40, 50, "b", 2)) == []


def test_each_record_of_an_acknowledgement_has_its_own_type() -> None:
    three = got(0, 10, "a", offsets=(4, 6))
    types = ShareAcknowledged(30, G, "a", P, 4, 6, (ACCEPT, RELEASE, ACCEPT), 20, "acked")
    assert names(three, types, got(40, 50, "b", 2, offsets=(5, 5))) == []
    assert names(three, types, got(40, 50, "b", 2, offsets=(6, 6))) == ["redelivered"]


# --- how often ---


def test_a_record_is_not_delivered_more_often_than_the_limit() -> None:
    again = [got(2_000 * nth, 2_000 * nth + 10, "a", 1 + nth) for nth in range(3)]
    assert names(*again[:2]) == []
    assert names(*again) == ["over-delivered"]
    forgotten = [replace(event, delivery_count=1) for event in again]
    assert names(*forgotten) == ["over-delivered"]


@pytest.mark.parametrize(
    "lost", [LeaderElected(3_000, P, 2, 3), ShareEnded(3_000, G, "", P), ShareWriteFailed(3_000, G, P)], ids=type
)
def test_a_delivery_that_was_not_written_may_be_forgotten(lost: Event) -> None:
    again = [got(2_000 * nth, 2_000 * nth + 10, "a", max(1, nth)) for nth in range(3)]
    assert names(*again, lost) == []


# --- whose word counts ---


def test_a_decision_does_not_count_while_another_member_has_the_record() -> None:
    second = got(2_000, 2_010, "b", 2)
    assert names(FIRST, second, told(2_100, 2_110, "a")) == ["stale-acknowledgement"]
    assert names(FIRST, second, told(2_100, 2_110, "a", outcome="refused")) == []
    assert names(FIRST, second, told(2_005, 2_050, "a")) == [], "sent before the other one knew that it has it"
    assert names(FIRST, second, told(2_050, 2_060, "b"), told(2_100, 2_110, "a")) == [], "it is done already"


# --- which records ---


def test_an_offset_has_the_value_that_was_acknowledged_there() -> None:
    assert names(FIRST, Acked(5, "p", P, 105, 5, -1)) == []
    assert names(FIRST, Acked(5, "p", P, 999, 5, -1)) == ["unlike-records", "undelivered"]
    assert names(FIRST, Acked(5, "p", P, 999, 5, 1)) == [], "one broker's word may be lost"


def test_an_acknowledged_value_is_delivered_once_at_least() -> None:
    ack = Acked(5, "p", P, 7, 9, -1)
    assert names(ack) == ["undelivered"]
    assert names(ack, replace(FIRST, values=((9, 7),))) == []
    assert names(ack, Cleaned(1, P, True, 0)) == [], "it may be deleted"
    assert names(ack, TxnWrote(1, 1, P, 7)) == [], "it may be aborted"
    assert names(ack, TxnWrote(1, 1, P, 7), TxnEnded(6, 1, "unknown")) == []


def test_a_value_of_a_committed_transaction_is_owed_but_by_a_groups_output() -> None:
    committed = Acked(5, "p", P, 7, 9, -1), TxnWrote(1, 1, P, 7), TxnEnded(6, 1, "committed")
    assert names(*committed) == ["undelivered"]
    assert names(*committed, replace(FIRST, values=((9, 7),))) == []
    assert names(*committed, GroupTransforms(0, "others", "orders")) == [], "which no share group consumes"


# --- dead letters ---

PROMISED = DeadLetterPromise(0, G)
LETTER = DeadLetter(9_000, G, P, 5, REJECTED)
TIRED = replace(LETTER, message=DELIVERY_LIMIT)
REJECT = int(AcknowledgeType.REJECT)
KEPT = Polled(10_000, "final", P, ((4, 104), (5, 105)), 9, final=True)
GIVEN_UP = ShareGivenUp(1_500, G, P, 5, 6, 2)


def test_a_record_that_no_member_accepts_is_in_the_dead_letter_topic() -> None:
    assert names(PROMISED, FIRST, KEPT) == ["lost-dead-letter"]
    assert names(FIRST, KEPT) == [], "the group has no such topic"
    assert names(PROMISED, FIRST, KEPT, LETTER) == []
    assert names(PROMISED, FIRST, KEPT, LETTER, LETTER) == [], "it may be there twice"
    assert names(PROMISED, FIRST, KEPT, replace(LETTER, offset=6)) == ["lost-dead-letter"]
    assert names(PROMISED, FIRST, KEPT, told(20, 30, "a", REJECT)) == ["lost-dead-letter"]
    for outcome in ("acked", "unknown"):
        assert names(PROMISED, FIRST, KEPT, told(20, 30, "a", outcome=outcome)) == []
    assert names(PROMISED, FIRST, KEPT, told(20, 30, "a", outcome="refused")) == ["lost-dead-letter"]


LOST = DeadLettersLost(8_000, G, P, 4, 5, "5 tries to write to dlq-0 have failed, the last one with: no leader")


def test_a_record_that_is_written_as_given_up_has_a_dead_letter_whatever_a_member_told() -> None:
    assert names(GIVEN_UP, KEPT) == ["owed-dead-letter"]
    assert names(GIVEN_UP, GIVEN_UP, KEPT) == ["owed-dead-letter"], "it is told once"
    assert names(GIVEN_UP, KEPT, LETTER) == []
    assert names(GIVEN_UP, KEPT, replace(LETTER, group="others")) == ["owed-dead-letter"]
    assert names(GIVEN_UP, KEPT, FIRST, told(2_000, 2_010, "a")) == ["owed-dead-letter"], "too late, though answered"


@pytest.mark.parametrize(("event", "name"), [(FIRST, "lost-dead-letter"), (GIVEN_UP, "owed-dead-letter")])
def test_a_dead_letter_may_be_missing_where_records_go_or_after_the_last_try(event: Event, name: str) -> None:
    assert names(PROMISED, event) == [], "it is deleted, or compacted away"
    assert names(PROMISED, event, KEPT, Cleaned(1, P, True, 0)) == [name], "others of its partition may be"
    assert names(PROMISED, event, replace(KEPT, final=False)) == [], "it was there, and may be deleted since"
    assert names(PROMISED, event, KEPT, UncleanElection(1, P)) == []
    assert names(PROMISED, event, KEPT, LOST) == []
    assert names(PROMISED, event, KEPT, replace(LOST, last_offset=4)) == [name]
    assert names(PROMISED, event, KEPT, replace(LOST, why="UNKNOWN_SERVER_ERROR")) == [name]


def test_a_record_that_was_accepted_has_no_dead_letter() -> None:
    accepted = told(20, 30, "a")
    assert names(PROMISED, FIRST, accepted, LETTER) == ["letter-of-accepted"]
    assert names(PROMISED, FIRST, accepted, TIRED) == ["letter-of-accepted"]
    assert names(PROMISED, FIRST, replace(accepted, outcome="unknown"), LETTER) == []
    assert names(PROMISED, FIRST, told(20, 30, "a", REJECT), LETTER) == []


def test_an_acceptance_that_comes_too_late_does_not_count() -> None:
    """It is answered without an error if the record is below the start offset by then."""
    assert names(PROMISED, FIRST, told(2_000, 2_010, "a"), LETTER) == [], "its lock is over"
    assert names(PROMISED, FIRST, told(2_000, 2_010, "b"), LETTER) == [], "it never had the record"
    assert names(PROMISED, FIRST, told(20, 30, "a", REJECT), told(40, 50, "a"), LETTER) == [], "it told so before"
    assert names(PROMISED, FIRST, ShareEnded(15, G, "a", P), told(20, 30, "a"), LETTER) == [], "its session is over"


@pytest.mark.parametrize(
    "event", [LeaderElected(3_000, P, 2, 3), ShareEnded(3_000, G, "", P), ShareWriteFailed(3_000, G, P)], ids=type
)
def test_a_record_may_be_given_up_before_that_is_written(event: Event) -> None:
    """The next leader does not know that it was delivered so often; a rejection is written first."""
    assert names(PROMISED, FIRST, told(20, 30, "a"), event, TIRED) == []
    assert names(PROMISED, FIRST, told(20, 30, "a"), event, LETTER) == ["letter-of-accepted"]
