"""What toxics do to the bytes of one direction: when they go on, in which pieces, and which are lost."""

from __future__ import annotations

import random
from typing import Any

import pytest

from purgatorio.broker.layers.faults import Toxic, parse_fault
from purgatorio.broker.layers.faults.flow import Flow
from purgatorio.broker.layers.faults.stages import END, STAGES

Taken = list[tuple[float, bytes]]


def flow(*toxics: dict[str, Any], seed: int = 1) -> Flow:
    made = Flow()
    stages = []
    for each in toxics:
        toxic = parse_fault(each)
        assert isinstance(toxic, Toxic)
        stages.append(STAGES[toxic.toxic](toxic, random.Random(seed)))
    made.stages = stages
    return made


def all_of(passed: Flow) -> Taken:
    """Take everything, each piece at its time."""
    taken = []
    while (due_ms := passed.due_ms) is not None:
        data = passed.take(due_ms)
        assert data is not None
        taken.append((round(due_ms, 3), bytes(data)))
    return taken


def test_without_toxics_it_is_idle_and_bytes_go_on_at_once() -> None:
    plain = flow()
    assert plain.is_idle
    plain.feed(b"abc", 5.0)
    assert (plain.due_ms, plain.take(5.0), plain.due_ms) == (5.0, b"abc", None)


def test_latency_delays_each_write_and_the_end() -> None:
    late = flow({"toxic": "latency", "latency_ms": 100})
    late.feed(b"a", 0.0)
    late.feed(b"b", 30.0)
    late.feed(END, 40.0)
    assert late.take(98.0) is None
    assert all_of(late) == [(100.0, b"a"), (130.0, b"b"), (140.0, b"")]


def test_jitter_never_lets_bytes_overtake_others() -> None:
    late = flow({"toxic": "latency", "latency_ms": 100, "jitter_ms": 90})
    sent = [bytes([nth]) for nth in range(50)]
    for nth, data in enumerate(sent):
        late.feed(data, float(nth))
    taken = all_of(late)
    times = [at for at, _ in taken]
    assert [data for _, data in taken] == sent
    assert times == sorted(times)
    assert len(set(times)) > 5, "they differ"


def test_bandwidth_lets_so_many_bytes_pass_in_a_second() -> None:
    narrow = flow({"toxic": "bandwidth", "rate_kb": 10})
    narrow.feed(b"x" * 5_000, 0.0)
    narrow.feed(b"y" * 1_000, 10.0)
    taken = all_of(narrow)
    assert b"".join(data for _, data in taken) == b"x" * 5_000 + b"y" * 1_000
    assert taken[-1][0] == 600.0
    assert max(len(data) for _, data in taken) <= 1_024
    narrow.feed(b"z", 10_000.0)
    assert all_of(narrow) == [(10_000.1, b"z")]


def test_a_slicer_cuts_into_pieces_around_its_average_size() -> None:
    slicer = flow({"toxic": "slicer", "average_size_bytes": 10, "size_variation_bytes": 3, "delay_ms": 2})
    slicer.feed(b"x" * 200, 0.0)
    slicer.feed(END, 0.0)
    *pieces, last, end = all_of(slicer)
    assert all(7 <= len(data) <= 13 for _, data in pieces)
    assert len({len(data) for _, data in pieces}) > 2
    assert [at for at, _ in pieces] == [2.0 * nth for nth in range(len(pieces))]
    assert sum(len(data) for _, data in [*pieces, last]) == 200
    assert end == (2.0 * (len(pieces) + 1), b"")


def test_a_slicer_works_only_when_its_pieces_are_asked_for() -> None:
    """Else a large answer in slices of a byte would hold up the broker."""
    slicer = flow({"toxic": "slicer", "average_size_bytes": 1})
    slicer.feed(memoryview(bytes(100_000_000)), 0.0)
    assert slicer.take(0.0) == b"\0"
    assert slicer.buffered_bytes == 99_999_999


def test_slow_close_delays_only_the_end() -> None:
    slow = flow({"toxic": "slow_close", "delay_ms": 500})
    slow.feed(b"a", 0.0)
    slow.feed(END, 1.0)
    assert all_of(slow) == [(0.0, b"a"), (501.0, b"")]


def test_silence_loses_bytes_and_holds_none() -> None:
    silent = flow({"toxic": "timeout"})
    silent.feed(b"abc", 0.0)
    assert (silent.due_ms, silent.buffered_bytes) == (None, 0)
    silent.feed(END, 1.0)
    assert all_of(silent) == [(1.0, b"")]


@pytest.mark.parametrize(("limit", "passes"), [(0, b""), (4, b"abcd"), (6, b"abcdef"), (7, b"abcdefg")])
def test_limit_data_ends_the_stream_when_so_many_bytes_have_passed(limit: int, passes: bytes) -> None:
    limited = flow({"toxic": "limit_data", "limit_bytes": limit})
    for data in (b"abc", b"def", b"ghi"):
        limited.feed(data, 0.0)
    *taken, end = all_of(limited)
    assert b"".join(data for _, data in taken) == passes
    assert end == (0.0, b"")
    assert limited.buffered_bytes == 0


def test_toxics_act_one_after_the_other() -> None:
    both = flow({"toxic": "latency", "latency_ms": 100}, {"toxic": "bandwidth", "rate_kb": 1})
    both.feed(b"x" * 50, 0.0)
    assert all_of(both) == [(150.0, b"x" * 50)]


def test_what_is_hurried_goes_on_at_once_and_what_comes_later_in_its_time() -> None:
    late = flow({"toxic": "latency", "latency_ms": 100})
    late.feed(b"a", 0.0)
    late.feed(b"b", 0.0)
    late.hurry()
    assert [late.take(1.0), late.take(1.0), late.due_ms] == [b"a", b"b", None]
    late.feed(b"c", 2.0)
    assert late.due_ms == 102.0
