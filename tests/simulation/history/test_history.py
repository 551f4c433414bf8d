"""Histories are written and read line by line, and their digest tells them apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Assigned,
    Cleaned,
    Drained,
    Failed,
    Fault,
    FencedAnswer,
    GroupAssigned,
    GroupBeat,
    History,
    LeaderElected,
    OffsetCommitted,
    OffsetRead,
    Polled,
    Sent,
    SequenceRefused,
    TopicRecreated,
    UncleanElection,
    Unknown,
)

EVENTS: list[Event] = [
    Sent(1, "p", "orders-0", 7, 1),
    Acked(2, "p", "orders-0", 7, 0, -1),
    Failed(3, "p", "orders-0", 8, "refused"),
    Unknown(4, "p", "orders-0", 9, "→ lost"),
    Assigned(5, "c", "orders-0", 0),
    Polled(6, "c", "orders-0", ((0, 7), (1, 9)), 2, True),
    Drained(7, "orders-0", 0, 2),
    Fault(8, "kill broker 1"),
    FencedAnswer(9, 1, "orders-0", "it went on"),
    UncleanElection(10, "orders-0"),
    Cleaned(11, "orders-0", True, 0),
    Assigned(12, "c", "orders-0", 0, True),
    Acked(13, "p", "orders-0", 8, 2, 1, 3, 5),
    SequenceRefused(14, "p", "orders-0", 2, 7),
    LeaderElected(14, "orders-0", -1, 6),
    TopicRecreated(14, "orders-0"),
    Polled(14, "c", "orders-0", ((2, 8),), 3, False, 3, 5, True, 13),
    GroupAssigned(15, "g", "c", "c-1", 2, ("orders-0", "orders-1")),
    GroupBeat(16, "g", "c", 2, 15),
    OffsetCommitted(17, "g", "c-1", 2, "orders-0", 3, 16, "acked"),
    OffsetRead(18, "g", "orders-0", 3, 17),
]


def history(*events: Event) -> History:
    made = History()
    for event in events:
        made.record(event)
    return made


def test_what_is_written_is_read(tmp_path: Path) -> None:
    history(*EVENTS).write(tmp_path / "history")
    again = History.read(tmp_path / "history")
    assert list(again) == EVENTS
    assert again.digest() == history(*EVENTS).digest()


def test_the_digest_tells_histories_apart() -> None:
    digests = {history(*EVENTS[:count]).digest() for count in range(len(EVENTS) + 1)}
    assert len(digests) == len(EVENTS) + 1
    assert history(*EVENTS[:2]).digest() != history(*reversed(EVENTS[:2])).digest()


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_one_line_of_json_that_names_its_type(event: Event) -> None:
    line = event.to_json()
    assert json.loads(line)["type"] == type(event).__name__
    assert "\n" not in line
    assert Event.from_json(line) == event


def test_the_line_of_an_event_does_not_change() -> None:
    """Histories that were written are read by what comes later, and digests are compared across versions."""
    assert EVENTS[5].to_json() == (
        '{"type":"Polled","time_ms":6,"consumer":"c","partition":"orders-0",'
        '"records":[[0,7],[1,9]],"high_watermark":2,"final":true,'
        '"broker":-1,"leader_epoch":-1,"follower":false,"asked_ms":-1}'
    )


@given(st.builds(Unknown, st.integers(), st.text(), st.text(), st.integers(), st.text()))
def test_whatever_text_an_event_holds_comes_back(event: Unknown) -> None:
    assert Event.from_json(event.to_json()) == event


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "1",
        "null",
        '"Fault"',
        '{"type": "Nothing"}',
        '{"type": ["Fault"]}',
        '{"type": "Event", "time_ms": 1}',
        '{"type": "Fault", "time_ms": 1}',
        '{"type": "Fault", "time_ms": "1", "what": "kill"}',
        '{"type": "Fault", "time_ms": true, "what": "kill"}',
        '{"type": "Fault", "time_ms": 1, "what": 7}',
        '{"type": "Fault", "time_ms": 1, "what": "kill", "whom": 7}',
        '{"type": "Polled", "time_ms": 1, "consumer": "c", "partition": "", "records": 7, "high_watermark": 1}',
        '{"type": "Polled", "time_ms": 1, "consumer": "c", "partition": "", "records": [[7]], "high_watermark": 1}',
        '{"type": "Polled", "time_ms": 1, "consumer": "c", "partition": "", "records": [[0, ""]], "high_watermark": 1}',
        '{"type": "Polled", "time_ms": 1, "consumer": "c", "partition": "", "records": [], "high_watermark": 1,'
        ' "final": 1}',
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "history").write_text(EVENTS[0].to_json() + "\n" + line + "\n")
    with pytest.raises(ValueError, match="history:2: this is no event"):
        History.read(tmp_path / "history")


def test_a_history_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "MAX_EVENTS", 2)
    with pytest.raises(OverflowError, match="at most 2 events"):
        history(*EVENTS)


def test_a_history_of_an_earlier_version_lacks_fields_and_is_read() -> None:
    line = '{"type":"Polled","time_ms":6,"consumer":"c","partition":"orders-0","records":[[0,7]],"high_watermark":2}'
    assert Event.from_json(line) == Polled(6, "c", "orders-0", ((0, 7),), 2)
