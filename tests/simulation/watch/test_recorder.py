"""What is recorded of a seed: enough for the page, within limits, and without a trace in the seed's history."""

from __future__ import annotations

import itertools

import pytest

from purgatorio.simulation.history.history import Fault
from purgatorio.simulation.run import simulate
from purgatorio.simulation.watch import recorder as recording
from purgatorio.simulation.watch.recorder import FRAME_MS, Recorder
from tests.simulation.watch.recorded import SHORT, recorded

pytestmark = [pytest.mark.simulation, pytest.mark.process]


def test_a_seed_that_is_recorded_has_the_history_that_it_has_without() -> None:
    assert recorded().report.history.digest() == simulate(2, SHORT).history.digest()


def test_there_is_a_frame_for_each_step_of_time_and_for_each_fault() -> None:
    report, recorder, _ = recorded()
    times = [frame.ms for frame in recorder.frames]
    assert times == sorted(times)
    assert max(after - before for before, after in itertools.pairwise(times)) < 2 * FRAME_MS
    faults = [event.time_ms for event in report.history.of(Fault)]
    assert faults
    assert set(faults) <= set(times)
    assert recorder.frames[-1].events <= len(report.history)


def test_a_frame_has_what_the_page_asks_for() -> None:
    middle = recorded().recorder.frames[len(recorded().recorder.frames) // 2]
    answers = middle.answers()
    assert set(answers) == {"state", "matrix", "connections"}
    assert answers["state"]["now_ms"] == answers["matrix"]["now_ms"] == middle.ms
    assert answers["state"]["cluster_id"] == "seed 2"
    assert answers["connections"]["connection_count"] > 0


def test_beyond_its_limit_the_older_half_is_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the last moments stay, and the newer half stays whole."""
    whole = [frame.ms for frame in recorded().recorder.frames]
    monkeypatch.setattr(recording, "MAX_FRAMES", 30)
    recorder = Recorder("seed 2")
    simulate(2, SHORT, watch=recorder.watch)
    kept = [frame.ms for frame in recorder.frames]
    assert 15 < len(kept) <= 30 < len(whole)
    assert (kept[0], kept[-10:]) == (whole[0], whole[-10:])


def test_beyond_its_bytes_it_is_thinned_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_FRAME_BYTES", 60_000)
    recorder = Recorder("seed 2")
    simulate(2, SHORT, watch=recorder.watch)
    assert 2 < len(recorder.frames) < len(recorded().recorder.frames)
    assert sum(len(frame.packed) for frame in recorder.frames) <= 60_000
