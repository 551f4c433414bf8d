"""Pipelined producers keep their order through errors, and treat them as librdkafka or Java's client do."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from purgatorio.broker.replica.following.refused_batches import RefusedBatches
from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.checks.checkers import check
from purgatorio.simulation.clients.clients import Client, Output
from purgatorio.simulation.clients.pipelined import BURST_PAUSE_MS, MAX_IN_FLIGHT, JavaProducer, Pace, PipelinedProducer
from purgatorio.simulation.history.history import Acked, Failed, History, Sent, SequenceRefused, Unknown
from purgatorio.simulation.world.loop import SimulatedClock, SimulatedLoop
from tests.simulation.one_broker import One


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def test_it_has_several_requests_in_flight_and_all_are_acknowledged_in_order(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = One(loop, monkeypatch, lambda number: ErrorCode.NONE)
    one.run(PipelinedProducer)
    assert 1 < one.most_in_flight <= MAX_IN_FLIGHT
    assert one.acked == [sent.value for sent in one.history.of(Sent)]
    assert [ack.offset for ack in one.history.of(Acked)] == list(range(len(one.acked)))
    assert check(one.history) == []


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_after_a_retriable_error_it_sends_that_batch_and_all_later_ones_again_in_order(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    one = One(loop, monkeypatch, lambda number: code if 20 <= number < 25 else ErrorCode.NONE)
    one.run(PipelinedProducer)
    assert one.acked == [sent.value for sent in one.history.of(Sent)]
    assert {header.producer_epoch for header in one.headers} == {0}
    assert check(one.history) == []


def test_a_leader_that_takes_the_batches_after_a_refused_one_is_found(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefusedBatches, "waits_for_another", lambda *_: None)
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    one = One(loop, monkeypatch, lambda number: code if number == 20 else ErrorCode.NONE)
    one.run(PipelinedProducer)
    assert "sequence-refused" in {anomaly.name for anomaly in check(one.history)}


def test_after_sequences_out_of_order_it_takes_a_new_epoch_and_the_history_says_so(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    one = One(loop, monkeypatch, lambda number: code if number == 20 else ErrorCode.NONE)
    one.run(PipelinedProducer)
    producers = list(dict.fromkeys((header.producer_id, header.producer_epoch) for header in one.headers))
    assert len(producers) == 2
    first = next(header for header in one.headers if (header.producer_id, header.producer_epoch) == producers[1])
    assert first.base_sequence == 0
    assert len(list(one.history.of(SequenceRefused))) >= 1
    assert "sequence-refused" in {anomaly.name for anomaly in check(one.history)}


def test_a_batch_that_is_certainly_not_written_in_time_has_failed_and_the_next_ones_get_another_producer_id(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = One(loop, monkeypatch, lambda number: ErrorCode.NOT_ENOUGH_REPLICAS if 20 <= number < 27 else ErrorCode.NONE)
    one.run(PipelinedProducer, delivery_timeout_ms=200)
    failed = [event.value for event in one.history.of(Failed)]
    assert failed
    assert sorted(failed + one.acked) == [sent.value for sent in one.history.of(Sent)]
    assert len({header.producer_id for header in one.headers}) > 1
    assert check(one.history) == []


def test_a_burst_sends_its_batches_within_milliseconds_and_pauses_as_long_as_it_saved(loop: SimulatedLoop) -> None:
    client = Client("producer", [], clock=SimulatedClock(loop), rng=random.Random(1), history=History())
    pace = Pace((100.0, 100.0), max_records=1, burst=3)
    output = Output("orders", 0)
    producer = PipelinedProducer(client, output, values=iter(()), pace=pace)
    pauses_ms = [producer._pause_ms() for _ in range(6)]
    assert [pause_ms == 300.0 for pause_ms in pauses_ms] == [False, False, True] * 2
    assert all(pause_ms <= BURST_PAUSE_MS[1] for pause_ms in pauses_ms if pause_ms != 300.0)


def ran(loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch, refusals: dict[int, ErrorCode]) -> One:
    one = One(loop, monkeypatch, lambda number: refusals.get(number, ErrorCode.NONE))
    one.run(JavaProducer, delivery_timeout_ms=200)
    return one


def test_java_sends_the_batches_again_in_the_same_epoch_after_a_retriable_error(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ran(loop, monkeypatch, {20: ErrorCode.NOT_LEADER_OR_FOLLOWER, 21: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert one.acked == [sent.value for sent in one.history.of(Sent)]
    assert {header.producer_epoch for header in one.headers} == {0}
    assert check(one.history) == []


def test_java_retries_out_of_order_behind_a_refused_batch_as_it_is_but_the_history_says_so(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefusedBatches, "waits_for_another", lambda *_: None)
    one = ran(loop, monkeypatch, {20: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert one.acked == [sent.value for sent in one.history.of(Sent)]
    assert {header.producer_epoch for header in one.headers} == {0}
    assert list(one.history.of(SequenceRefused))


def test_out_of_order_for_its_oldest_batch_makes_java_raise_the_epoch_of_the_same_id(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ran(loop, monkeypatch, {20: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})
    assert list(dict.fromkeys((header.producer_id, header.producer_epoch) for header in one.headers)) == [
        (one.headers[0].producer_id, 0),
        (one.headers[0].producer_id, 1),
    ]
    assert next(header for header in one.headers if header.producer_epoch == 1).base_sequence == 0
    assert "sequence-refused" in {anomaly.name for anomaly in check(one.history)}


def test_a_batch_that_java_gives_up_leaves_a_gap_and_out_of_order_behind_that_is_no_anomaly(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ran(loop, monkeypatch, {20: ErrorCode.INVALID_RECORD})
    failed = [event.value for event in (*one.history.of(Failed), *one.history.of(Unknown))]
    assert failed
    assert sorted(failed + one.acked) == [sent.value for sent in one.history.of(Sent)]
    assert {header.producer_epoch for header in one.headers} == {0, 1}
    assert not list(one.history.of(SequenceRefused))
    assert check(one.history) == []


def test_java_sends_nothing_new_behind_a_gap_until_the_epoch_is_raised(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = dict.fromkeys(range(20, 25), ErrorCode.NOT_ENOUGH_REPLICAS)
    one = ran(loop, monkeypatch, refusals)
    assert list(one.history.of(Failed))
    sequences = [(header.producer_epoch, header.base_sequence) for header in one.headers]
    assert sequences == sorted(sequences)
    assert max(epoch for epoch, _ in sequences) >= 1
    assert check(one.history) == []
