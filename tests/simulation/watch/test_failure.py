"""The moment of a failure: the first frame by which the history, as far as it went, had it."""

from __future__ import annotations

from purgatorio.simulation.checks.checkers import Anomaly, check
from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import Failed, History, Polled, Sent
from purgatorio.simulation.watch.failure import failures
from purgatorio.simulation.watch.recorder import Frame, Seen

EVENTS: list[Event] = [
    Sent(100, "client-1", "orders-0", 1, 0),
    Failed(110, "client-1", "orders-0", 1, "refused"),
    Sent(200, "client-1", "orders-0", 2, 1),
    Polled(300, "client-2", "orders-0", ((0, 1),), 1),
    Sent(400, "client-1", "orders-0", 3, 2),
]
FRAMES = [Frame(nth * 100, min(nth, len(EVENTS)), b"") for nth in range(8)]


def history_of(events: list[Event]) -> History:
    history = History()
    for event in events:
        history.record(event)
    return history


def test_an_anomaly_of_the_history_comes_up_in_the_first_frame_that_has_it() -> None:
    """A value that was refused is polled by the fourth event."""
    history = history_of(EVENTS)
    anomalies = [each for each in check(history) if each.name == "G1a"]
    assert len(anomalies) == 1
    found = failures(anomalies, history, FRAMES, [])
    assert [(each.ms, each.says) for each in found] == [(400, str(anomalies[0]))]


def test_what_came_up_while_the_seed_ran_has_that_moment_and_the_earliest_comes_first() -> None:
    history = history_of(EVENTS)
    late = Anomaly("not-converged", "cluster", "it never rests")
    anomalies = [late, *(each for each in check(history) if each.name == "G1a")]
    assert [each.ms for each in failures(anomalies, history, FRAMES, [Seen(late, 650)])] == [400, 650]
    assert [each.ms for each in failures(anomalies, history, FRAMES, [Seen(late, 150)])] == [150, 400]


def test_one_that_no_part_of_the_history_has_comes_up_at_the_end() -> None:
    anomaly = Anomaly("not-converged", "cluster", "the simulation was not done")
    assert [each.ms for each in failures([anomaly], history_of(EVENTS), FRAMES, [])] == [FRAMES[-1].ms]
