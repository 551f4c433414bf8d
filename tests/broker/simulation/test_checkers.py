"""Each check finds its anomaly, and nothing in a history that only looks like one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.simulation.checkers import CHECKS, check, events_about
from broker.simulation.history import (
    Acked,
    Assigned,
    Drained,
    Event,
    Failed,
    FencedAnswer,
    History,
    Polled,
    Sent,
    UncleanElection,
    Unknown,
)

P = "orders-0"


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
        "G1a",
        "phantom",
        "inconsistent-offsets",
        "duplicate",
        "nonmonotonic-send",
        "nonmonotonic-poll",
        "poll-skip",
        "precommitted-read",
        "fenced-answer",
    ]
    assert all(sentence.endswith(".") for sentence in CHECKS.values())


def test_lost_write() -> None:
    assert names(*sent(1, 2), acked(1, 0), acked(2, 1), polled((1, 2))) == ["lost-write"]
    assert names(*sent(1, 2), acked(1, 0), acked(2, 1), polled((0, 1))) == [], "nobody has polled that far"
    assert names(*sent(1, 2), acked(1, 0, acks=1), acked(2, 1), polled((1, 2))) == [], "its leader alone had it"


def test_unseen() -> None:
    assert names(*sent(1, 2), acked(1, 0), acked(2, 1), polled((0, 1), final=True), DRAINED) == ["unseen"]
    assert names(*sent(1, 2), acked(1, 0), acked(2, 1), polled((0, 1), final=True)) == [], "not everything was read"
    assert names(*sent(1), acked(1, -1), DRAINED) == ["unseen"], "an answer without an offset is an answer"


def test_a_record_polled_once_and_gone_in_the_end_is_unseen() -> None:
    assert names(*sent(1), acked(1, 0), polled((0, 1)), DRAINED) == ["unseen"]


def test_g1a() -> None:
    assert names(*sent(1), Failed(2, "p", P, 1, "refused"), polled((0, 1))) == ["G1a"]
    assert names(*sent(1), Unknown(2, "p", P, 1, "lost"), polled((0, 1))) == []


def test_phantom() -> None:
    assert names(polled((0, 1))) == ["phantom"]


def test_inconsistent_offsets() -> None:
    assert names(*sent(1, 2), polled((0, 1)), polled((0, 2), consumer="d")) == ["inconsistent-offsets"]
    assert names(*sent(1, 2), acked(1, 0), polled((0, 2)), idempotent=False) == ["lost-write", "inconsistent-offsets"]
    assert names(*sent(1, 2), acked(1, 0, acks=1), polled((0, 2))) == [], "acks=1 was lost, and its offset taken"


def test_duplicate() -> None:
    events = [*sent(1), polled((0, 1), (1, 1))]
    assert names(*events) == ["duplicate"]
    assert names(*events, idempotent=False) == []


def test_nonmonotonic_send() -> None:
    events = [*sent(1, 2), acked(1, 5), acked(2, 4), polled((4, 2), (5, 1))]
    assert names(*events) == ["nonmonotonic-send"]
    assert names(*sent(1, 2), acked(2, 4), polled((4, 2), (5, 1))) == [], "1 was given up, and written late"
    assert names(*sent(1), *sent(2, producer="q"), acked(1, 5), acked(2, 4, producer="q"), polled((4, 2), (5, 1))) == []


def test_nonmonotonic_poll_and_poll_skip_within_one_assignment() -> None:
    both = [*sent(1, 2, 3), polled((0, 1), (1, 2), (2, 3), consumer="other")]
    assert names(*both, polled((1, 2)), polled((0, 1))) == ["nonmonotonic-poll"]
    assert names(*both, polled((1, 2)), Assigned(4, "c", P, 0), polled((0, 1))) == []
    assert names(*both, polled((0, 1)), polled((2, 3))) == ["poll-skip"]
    assert names(*sent(1, 3), polled((0, 1)), polled((2, 3))) == [], "a control record may lie between"


def test_precommitted_read() -> None:
    assert names(*sent(1), polled((0, 1), high_watermark=0)) == ["precommitted-read"]
    assert names(*sent(1), polled((0, 1), high_watermark=1)) == []
    assert names(*sent(1), polled((0, 1), high_watermark=-1)) == [], "it was not told"


def test_fenced_answer() -> None:
    assert names(FencedAnswer(1, 2, P, "it went on")) == ["fenced-answer"]


def test_an_unclean_election_gives_up_what_was_acknowledged_before_it_and_not_after() -> None:
    before = [*sent(1, 2, 3), acked(1, 0), UncleanElection(3, P)]
    assert names(*before, acked(2, 0), polled((0, 2), final=True), DRAINED) == []
    assert names(*before, acked(3, 0), polled((0, 2), final=True), DRAINED) == [
        "lost-write",
        "unseen",
        "inconsistent-offsets",
    ]


def test_what_is_known_of_one_value_can_be_looked_up() -> None:
    history = History()
    for event in [*sent(1, 2), acked(1, 0), polled((0, 1), (1, 2)), DRAINED]:
        history.record(event)
    assert [type(event).__name__ for event in events_about(history, 1)] == ["Sent", "Acked", "Polled"]


def right_history(rng: random.Random, count: int) -> list[Event]:
    """One log, idempotent producers, some answers lost, two consumers and a final reader."""
    log: list[int] = []
    events: list[Event] = []
    for value in range(count):
        producer = rng.choice("pq")
        events.append(Sent(value, producer, P, value, value))
        fate = rng.random()
        if fate < 0.1:
            events.append(Failed(value, producer, P, value, "refused"))
        elif fate < 0.2:
            log += [value] if rng.random() < 0.5 else []
            events.append(Unknown(value, producer, P, value, "lost"))
        else:
            log.append(value)
            events.append(Acked(value, producer, P, value, rng.choice([len(log) - 1, -1]), -1))
    for consumer in "cd":
        position = 0
        while position < len(log):
            taken = log[position : position + rng.randint(1, 4)]
            records = tuple((position + nth, value) for nth, value in enumerate(taken))
            position += len(taken)
            events.append(Polled(count, consumer, P, records, len(log), final=consumer == "d"))
    events.append(Drained(count, P, 0, len(log)))
    return events


@given(st.integers(0, 2**32), st.integers(0, 60))
def test_a_right_history_has_no_anomaly(seed: int, count: int) -> None:
    assert names(*right_history(random.Random(seed), count)) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_record_that_is_dropped_from_a_right_history_is_missed(seed: int) -> None:
    rng = random.Random(seed)
    events = right_history(rng, 60)
    ack = rng.choice([event for event in events if isinstance(event, Acked)])
    broken: list[Event] = []
    for event in events:
        if isinstance(event, Polled):
            kept = tuple(record for record in event.records if record[1] != ack.value)
            event = Polled(event.time_ms, event.consumer, event.partition, kept, event.high_watermark, event.final)
        broken.append(event)
    assert "unseen" in names(*broken)
