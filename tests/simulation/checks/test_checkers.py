"""Each check finds its anomaly, and nothing in a history that only looks like one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatorio.simulation.checks.checkers import CHECKS, check
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Assigned,
    Drained,
    Failed,
    FencedAnswer,
    History,
    Polled,
    Sent,
    UncleanElection,
    Unknown,
)
from tests.histories import seeds
from tests.simulation.toy_log import P, ToyLog

Corruption = Callable[[random.Random, list[Event]], list[Event]]


def sent(*values: int, producer: str = "p") -> list[Event]:
    return [Sent(1, producer, P, value, value) for value in values]


def acked(value: int, offset: int, acks: int = -1, producer: str = "p") -> Event:
    return Acked(2, producer, P, value, offset, acks)


def polled(*records: tuple[int, int], high_watermark: int = 100, final: bool = False, consumer: str = "c") -> Event:
    return Polled(3, consumer, P, records, high_watermark, final)


def names(*events: Event, idempotent: bool = True) -> list[str]:
    history = History()
    for event in events:
        history.record(event)
    return [anomaly.name for anomaly in check(history, idempotent=idempotent)]


DRAINED = Drained(9, P, 0, 10)


def test_every_check_has_a_name_and_a_sentence() -> None:
    assert list(CHECKS) == [
        "lost-write",
        "unseen",
        "vanished",
        "gap",
        "G1a",
        "phantom",
        "inconsistent-offsets",
        "duplicate",
        "nonmonotonic-send",
        "sequence-refused",
        "nonmonotonic-poll",
        "poll-skip",
        "consumer-reset",
        "watermark-regress",
        "stale-read",
        "precommitted-read",
        "fenced-answer",
    ]
    assert all(sentence.endswith(".") for sentence in CHECKS.values())


def test_lost_write() -> None:
    both = [*sent(1, 2), Assigned(1, "c", P, 0), acked(1, 0), acked(2, 1)]
    assert names(*both, polled((1, 2))) == ["lost-write", "gap"]
    assert names(*both, polled((0, 1))) == [], "nobody has polled that far"
    assert names(*both, polled((1, 2)), polled((0, 1), consumer="d")) == ["poll-skip"], "another has polled it"
    assert names(*sent(1, 2), acked(1, 0, acks=1), acked(2, 1), polled((1, 2))) == [], "its leader alone had it"


def test_who_begins_to_read_behind_a_value_says_nothing_of_it() -> None:
    three = [*sent(1, 2, 3), acked(1, 0), acked(2, 1), acked(3, 2)]
    assert names(*three, Assigned(1, "c", P, 2), polled((2, 3))) == []
    assert names(*three, polled((0, 1)), polled((2, 3), consumer="d")) == [], "nobody has read from 0 to 2"
    assert names(*three, polled((0, 1), (2, 3))) == ["lost-write", "gap"]


def test_who_has_not_polled_has_read_nothing() -> None:
    assert names(*sent(1), acked(1, 0), Assigned(1, "c", P, 0)) == []


def test_unseen() -> None:
    assert names(*sent(1, 2), acked(1, 0), acked(2, 1), polled((0, 1), final=True), DRAINED) == ["unseen"]
    assert names(*sent(1, 2), acked(1, 0), acked(2, 1), polled((0, 1), final=True)) == [], "not everything was read"
    assert names(*sent(1), acked(1, -1), DRAINED) == ["unseen"], "an answer without an offset is an answer"
    assert names(*sent(1), acked(1, 0, acks=1), DRAINED) == [], "its leader alone had it"


def test_what_is_acknowledged_while_the_final_reader_reads_may_lie_behind_its_end() -> None:
    assert names(*sent(1, 2), acked(1, 0), polled((0, 1), final=True), acked(2, 1), DRAINED) == []
    assert names(*sent(1), DRAINED, acked(1, 0)) == []


def test_a_record_polled_once_and_gone_in_the_end_is_unseen() -> None:
    assert names(*sent(1), acked(1, 0), polled((0, 1)), DRAINED) == ["unseen"]


def test_g1a() -> None:
    assert names(*sent(1), Failed(2, "p", P, 1, "refused"), polled((0, 1))) == ["G1a"]
    assert names(*sent(1), polled((0, 1)), Failed(4, "p", P, 1, "refused")) == ["G1a"], "the order is of no account"
    assert names(*sent(1), Unknown(2, "p", P, 1, "lost"), polled((0, 1))) == []


def test_phantom() -> None:
    assert names(polled((0, 1))) == ["phantom"]
    assert names(Sent(1, "p", "orders-1", 1, 0), polled((0, 1))) == ["phantom"], "it was sent to another partition"
    assert names(*sent(1), polled((0, 1))) == []


def test_inconsistent_offsets_of_two_polls() -> None:
    assert names(*sent(1, 2), polled((0, 1)), polled((0, 2), consumer="d")) == ["inconsistent-offsets"]
    assert names(*sent(1, 2), polled((0, 1)), polled((1, 2), consumer="d")) == []
    elsewhere = Polled(3, "d", "orders-1", ((0, 2),), -1)
    assert names(*sent(1), Sent(1, "p", "orders-1", 2, 0), polled((0, 1)), elsewhere) == [], "a log of its own"


def test_inconsistent_offsets_of_a_poll_and_an_acknowledgement() -> None:
    assert names(*sent(1, 2), acked(1, 0), polled((0, 2)), idempotent=False) == ["lost-write", "inconsistent-offsets"]
    told = [polled((0, 1)), polled((0, 2), consumer="d")]
    assert names(*sent(1, 2), acked(2, 0), *told) == ["inconsistent-offsets"], "told once"
    assert names(*sent(1, 2), acked(1, 0, acks=1), polled((0, 2))) == [], "acks=1 was lost, and its offset taken"
    assert names(*sent(1, 2), acked(1, 0, acks=0), polled((0, 2))) == []
    assert names(*sent(1, 2), acked(1, -1), polled((0, 2))) == []


def test_inconsistent_offsets_of_two_acknowledgements() -> None:
    assert names(*sent(1, 2), acked(1, 0), acked(2, 0)) == ["inconsistent-offsets"]
    assert names(*sent(1, 2), acked(1, 0, acks=1), acked(2, 0)) == [], "acks=1 was lost, and its offset taken"
    assert names(*sent(1, 2), acked(1, -1), acked(2, -1)) == [], "the answers do not say the offset"


def test_duplicate() -> None:
    events = [*sent(1), polled((0, 1), (1, 1))]
    assert names(*events) == ["duplicate"]
    assert names(*events, idempotent=False) == []
    assert names(acked(1, 1), *events) == ["duplicate"], "told once"
    assert names(*sent(1), polled((0, 1)), polled((0, 1), consumer="d")) == [], "two have read the same record"


def test_a_value_polled_elsewhere_than_acknowledged_is_a_duplicate() -> None:
    assert names(*sent(1), acked(1, 5), polled((3, 1))) == ["duplicate"]
    assert names(*sent(1), acked(1, 5), polled((3, 1)), idempotent=False) == [], "an attempt before wrote it there"
    assert names(*sent(1), acked(1, 5, acks=1), polled((3, 1))) == [], "two leaders wrote it, and one of them was lost"
    assert names(*sent(1), acked(1, -1), polled((3, 1))) == []


def test_nonmonotonic_send() -> None:
    events = [*sent(1, 2), acked(1, 5), acked(2, 4), polled((4, 2), (5, 1))]
    assert names(*events) == ["nonmonotonic-send"]
    assert names(*events, idempotent=False) == []
    assert names(*sent(1, 2), acked(1, 5), acked(2, 4)) == ["nonmonotonic-send"], "acks=-1 says where it is"
    assert names(*sent(1, 2), acked(2, 4), acked(1, 3)) == [], "answers may come in any order"
    assert names(*sent(1, 2), acked(2, 4), polled((4, 2), (5, 1))) == [], "1 was given up, and written late"
    assert names(*sent(1), *sent(2, producer="q"), acked(1, 5), acked(2, 4, producer="q"), polled((4, 2), (5, 1))) == []


def test_nonmonotonic_send_takes_the_offset_of_a_lesser_acknowledgement_from_the_polls() -> None:
    log = polled((4, 2), (5, 1))
    assert names(*sent(1, 2), acked(1, -1), acked(2, -1), log) == ["nonmonotonic-send"]
    assert names(*sent(1, 2), acked(1, 1, acks=1), acked(2, 2, acks=1), log) == ["nonmonotonic-send"]
    assert names(*sent(1, 2), acked(1, 5, acks=1), acked(2, 4, acks=1)) == [], "the first was lost, with its leader"
    assert names(*sent(1, 2), acked(1, -1, acks=0), acked(2, -1, acks=0), log) == [], "nobody has answered"


def test_nonmonotonic_poll_and_poll_skip_within_one_assignment() -> None:
    both = [*sent(1, 2, 3), polled((0, 1), (1, 2), (2, 3), consumer="other")]
    assert names(*both, polled((1, 2)), polled((0, 1))) == ["nonmonotonic-poll"]
    assert names(*both, polled((1, 2)), polled((1, 2))) == ["nonmonotonic-poll"]
    assert names(*both, polled((1, 2)), Assigned(4, "c", P, 0), polled((0, 1))) == []
    assert names(*both, polled((0, 1)), polled((2, 3))) == ["poll-skip"]
    assert names(*both, polled((0, 1)), Assigned(4, "c", P, 2), polled((2, 3))) == []
    assert names(*sent(1, 3), polled((0, 1)), polled((2, 3))) == ["gap"], "no value is known of the skipped offset"


def test_poll_skip_counts_from_where_the_assignment_begins_and_knows_of_later_polls() -> None:
    other = polled((0, 1), (1, 2), consumer="other")
    assert names(*sent(1, 2), Assigned(1, "c", P, 0), polled((1, 2)), other) == ["poll-skip"]
    assert names(*sent(1, 2), Assigned(1, "c", P, 1), polled((1, 2)), other) == []
    assert names(*sent(1, 2), Assigned(1, "c", P, -1), polled((1, 2)), other) == [], "where it began is not known"


def test_a_wide_gap_costs_nothing() -> None:
    assert names(*sent(1, 2), polled((0, 1), (2**62, 2), high_watermark=-1)) == ["gap"]


def test_precommitted_read() -> None:
    assert names(*sent(1), polled((0, 1), high_watermark=0)) == ["precommitted-read"]
    assert names(*sent(1, 2), polled((1, 1), (0, 2), high_watermark=1)) == ["nonmonotonic-poll", "precommitted-read"]
    assert names(*sent(1), polled((0, 1), high_watermark=1)) == []
    assert names(*sent(1), polled((0, 1), high_watermark=-1)) == [], "it was not told"


def test_fenced_answer() -> None:
    assert names(FencedAnswer(1, 2, P, "it went on")) == ["fenced-answer"]


def test_an_unclean_election_gives_up_what_was_acknowledged_before_it_and_not_after() -> None:
    before = [*sent(1), acked(1, 0), UncleanElection(3, P)]
    assert names(*before, *sent(2), acked(2, 0), polled((0, 2), final=True), DRAINED) == []
    assert names(*before, *sent(2, 3), acked(3, 0), polled((0, 2), final=True), DRAINED) == [
        "lost-write",
        "unseen",
        "inconsistent-offsets",
    ]


def test_where_a_value_is_after_an_unclean_election_says_nothing_of_where_it_was_acknowledged_before() -> None:
    again = [UncleanElection(4, P), polled((6, 1))]
    assert names(*sent(1), acked(1, 5), *again) == [], "a request under way wrote it again"
    assert names(*sent(1, 2), acked(1, -1), acked(2, 4), *again) == []


def test_a_late_answer_of_the_log_before_says_nothing_of_the_new_one() -> None:
    late = [*sent(1), UncleanElection(2, P), Assigned(3, "c", P, 0), *sent(2, 3), polled((0, 1))]
    assert names(*late, polled((1, 3)), polled((0, 2), consumer="d")) == [], "it had gone on to 1 in the former log"


def test_what_was_lost_before_an_unclean_election_was_lost() -> None:
    lost = [*sent(1, 2), Assigned(1, "c", P, 0), acked(1, 0), acked(2, 1), polled((1, 2))]
    assert names(*lost, UncleanElection(4, P)) == ["lost-write", "gap"]
    assert names(*sent(1, 2), polled((0, 1)), polled((0, 2), consumer="d"), UncleanElection(4, P)) == [
        "inconsistent-offsets"
    ]


def test_an_unclean_election_begins_a_new_log() -> None:
    before = [*sent(1, 2), acked(1, 0), acked(2, 1), polled((0, 1), (1, 2)), UncleanElection(4, P)]
    assert names(*before, *sent(3), polled((0, 3))) == [], "its offset taken anew, and its consumer set back"
    assert names(*before, polled((5, 2))) == [], "a producer had it, and wrote it again"
    assert names(*sent(1), UncleanElection(4, P), acked(1, 0), *sent(2), polled((0, 2))) == [], "a late answer"
    elsewhere = [Sent(1, "p", "orders-1", 1, 0), Acked(2, "p", "orders-1", 1, 0, -1), Drained(9, "orders-1", 0, 0)]
    assert names(*elsewhere, UncleanElection(4, P)) == ["unseen"], "it was another partition's"


def test_anomalies_come_check_by_check_and_say_which_partition() -> None:
    history = History()
    for partition in ("orders-1", P):
        for event in (
            Sent(1, "p", partition, 1, 0),
            FencedAnswer(2, 1, partition, "x"),
            Acked(3, "p", partition, 1, 0, -1),
        ):
            history.record(event)
        history.record(Drained(4, partition, 0, 0))
    found = check(history)
    assert [(anomaly.name, anomaly.partition) for anomaly in found] == [
        (name, partition) for name in ("unseen", "fenced-answer") for partition in ("orders-1", P)
    ]
    assert str(found[0]) == (
        "unseen orders-1: 1 of p was acknowledged at offset 0 at 3 ms, and is not among offsets 0 to 0 in the end"
    )


@given(st.integers(0, 2**32), st.integers(0, 150), st.booleans())
@settings(deadline=None)
def test_a_right_history_has_no_anomaly(seed: int, steps: int, elections: bool) -> None:
    assert names(*ToyLog(random.Random(seed)).run(steps, elections=elections)) == []


def right_history(seed: int) -> tuple[random.Random, list[Event]]:
    """One that is long enough to be broken in every way."""
    rng = random.Random(seed)
    toy = ToyLog(rng)
    toy.run(120)
    return rng, toy.events


def promised(events: list[Event]) -> list[Acked]:
    """What is acknowledged with acks=-1 and an offset, but for what lies last."""
    end = max(offset for event in events if isinstance(event, Polled) for offset, _ in event.records)
    acks = [event for event in events if isinstance(event, Acked) and event.acks == -1]
    return [ack for ack in acks if 0 <= ack.offset < end]


def with_records(
    events: list[Event], change: Callable[[int, int], list[tuple[int, int]]], only: Callable[[Polled], bool] = bool
) -> list[Event]:
    """The history with other polled records."""
    return [
        replace(event, records=tuple(new for record in event.records for new in change(*record)))
        if isinstance(event, Polled) and only(event)
        else event
        for event in events
    ]


def by_final(poll: Polled) -> bool:
    return poll.final


def drop(rng: random.Random, events: list[Event]) -> list[Event]:
    lost = rng.choice(promised(events)).value
    return with_records(events, lambda offset, value: [] if value == lost else [(offset, value)])


def cut_short(rng: random.Random, events: list[Event]) -> list[Event]:
    first = rng.choice(promised(events)).offset
    return with_records(events, lambda offset, value: [(offset, value)] if offset < first else [])


def fail(rng: random.Random, events: list[Event]) -> list[Event]:
    ack = rng.choice(promised(events))
    return [Failed(0, "p", P, ack.value, "refused") if event is ack else event for event in events]


def forget_send(rng: random.Random, events: list[Event]) -> list[Event]:
    value = rng.choice(promised(events)).value
    return [event for event in events if not (isinstance(event, Sent) and event.value == value)]


def put_another_in_its_place(rng: random.Random, events: list[Event]) -> list[Event]:
    one, other = rng.sample(promised(events), 2)
    return with_records(
        events, lambda offset, value: [(offset, other.value if value == one.value else value)], by_final
    )


def append_again(rng: random.Random, events: list[Event]) -> list[Event]:
    value = rng.choice(promised(events)).value
    return [*events[:-1], Polled(0, "final", P, ((10_000, value),), -1, True), events[-1]]


def shift(rng: random.Random, events: list[Event]) -> list[Event]:
    """The log lies elsewhere than acknowledged."""
    return with_records(events, lambda offset, value: [(offset + 10_000, value)])


def swap(rng: random.Random, events: list[Event]) -> list[Event]:
    """Two values of a producer lie the other way round, for everybody."""
    one = rng.choice([ack for ack in promised(events) if sum(a.producer == ack.producer for a in promised(events)) > 1])
    other = rng.choice([ack for ack in promised(events) if ack.producer == one.producer and ack is not one])
    place = {one.value: other.offset, other.value: one.offset}
    swapped = with_records(events, lambda offset, value: [(place.get(value, offset), value)])
    swapped = [
        replace(event, records=tuple(sorted(event.records))) if isinstance(event, Polled) else event
        for event in swapped
    ]
    return [
        replace(event, offset=place[event.value]) if isinstance(event, Acked) and event.value in place else event
        for event in swapped
    ]


def skip(rng: random.Random, events: list[Event]) -> list[Event]:
    """The final reader misses a value that another reads, as all others."""
    value = rng.choice(promised(events)).value
    final = [event for event in events if isinstance(event, Polled) and event.final]
    another = [replace(poll, consumer="another", final=False) for poll in final]
    skipped = with_records(events, lambda offset, each: [] if each == value else [(offset, each)], by_final)
    return [*skipped[:-1], *another, skipped[-1]]


def repeat(rng: random.Random, events: list[Event]) -> list[Event]:
    value = rng.choice(promised(events)).value
    return with_records(events, lambda offset, each: [(offset, each)] * (2 if each == value else 1), by_final)


def read_too_far(rng: random.Random, events: list[Event]) -> list[Event]:
    nth = rng.choice([nth for nth, event in enumerate(events) if isinstance(event, Polled)])
    poll = events[nth]
    assert isinstance(poll, Polled)
    return [*events[:nth], replace(poll, high_watermark=poll.records[-1][0]), *events[nth + 1 :]]


CORRUPTIONS: dict[str, tuple[Corruption, set[str], set[str]]] = {
    "a value is nowhere": (drop, {"lost-write", "unseen", "gap"}, set()),
    "the end is lost": (cut_short, {"unseen"}, set()),
    "a failed value is there": (fail, {"G1a"}, set()),
    "a value comes from nowhere": (forget_send, {"phantom"}, set()),
    "one value is read in place of another": (
        put_another_in_its_place,
        {"inconsistent-offsets", "duplicate", "unseen"},
        {"lost-write"},
    ),
    "a value is there again": (append_again, {"duplicate", "gap"}, set()),
    "all lies elsewhere": (shift, {"duplicate", "gap"}, {"nonmonotonic-send", "poll-skip", "precommitted-read"}),
    "two values lie the other way round": (
        swap,
        {"nonmonotonic-send"},
        {"nonmonotonic-poll", "poll-skip", "gap", "precommitted-read", "watermark-regress"},
    ),
    "a value is not read": (skip, {"poll-skip", "unseen"}, set()),
    "a value is read twice": (repeat, {"nonmonotonic-poll"}, set()),
    "what is not committed is read": (read_too_far, {"precommitted-read"}, {"watermark-regress"}),
}
"""How a right history is broken, under which names that is found, and what else may be found."""


@pytest.mark.parametrize("seed", seeds(20, quick=3))
@pytest.mark.parametrize("how", CORRUPTIONS)
def test_what_is_broken_in_a_right_history_is_found_under_its_name_and_under_no_other(how: str, seed: int) -> None:
    corrupt, found, possible = CORRUPTIONS[how]
    rng, events = right_history(seed)
    assert names(*events) == []
    broken = set(names(*corrupt(rng, events)))
    assert found <= broken <= found | possible
