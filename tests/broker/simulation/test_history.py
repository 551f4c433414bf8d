"""Histories are written and read line by line, and their digest tells them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.simulation.history import (
    Acked,
    Assigned,
    Drained,
    Event,
    Failed,
    Fault,
    FencedAnswer,
    History,
    Polled,
    Sent,
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


@pytest.mark.parametrize("line", ["{", '{"type": "Nothing"}', '{"type": "Fault", "time_ms": 1}', "[]"])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "history").write_text(EVENTS[0].to_json() + "\n" + line + "\n")
    with pytest.raises(ValueError, match="history:2: this is no event"):
        History.read(tmp_path / "history")


def test_a_history_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "MAX_EVENTS", 2)
    with pytest.raises(OverflowError, match="at most 2 events"):
        history(*EVENTS)
