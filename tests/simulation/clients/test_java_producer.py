"""The pipelined producer that treats errors as Java's does: gaps, and epochs that it raises by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from purgatorio.broker.replica.following.refused_batches import RefusedBatches
from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.checks.checkers import check
from purgatorio.simulation.clients.java_producer import JavaProducer
from purgatorio.simulation.history.history import Failed, Sent, SequenceRefused, Unknown
from purgatorio.simulation.world.loop import SimulatedLoop
from tests.simulation.one_broker import One

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def ran(loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch, refusals: dict[int, ErrorCode]) -> One:
    one = One(loop, monkeypatch, lambda number: refusals.get(number, ErrorCode.NONE))
    one.run(JavaProducer, delivery_timeout_ms=200)
    return one


def test_after_a_retriable_error_it_sends_the_batches_again_in_the_same_epoch(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ran(loop, monkeypatch, {20: ErrorCode.NOT_LEADER_OR_FOLLOWER, 21: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert one.acked == [sent.value for sent in one.history.of(Sent)]
    assert {header.producer_epoch for header in one.headers} == {0}
    assert check(one.history) == []


def test_out_of_order_behind_a_refused_batch_is_retried_as_it_is_but_the_history_says_so(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefusedBatches, "waits_for_another", lambda *_: None)
    one = ran(loop, monkeypatch, {20: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert one.acked == [sent.value for sent in one.history.of(Sent)]
    assert {header.producer_epoch for header in one.headers} == {0}
    assert list(one.history.of(SequenceRefused))


def test_out_of_order_for_its_oldest_batch_makes_it_raise_the_epoch_of_the_same_id(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ran(loop, monkeypatch, {20: OUT_OF_ORDER})
    assert list(dict.fromkeys((header.producer_id, header.producer_epoch) for header in one.headers)) == [
        (one.headers[0].producer_id, 0),
        (one.headers[0].producer_id, 1),
    ]
    assert next(header for header in one.headers if header.producer_epoch == 1).base_sequence == 0
    assert "sequence-refused" in {anomaly.name for anomaly in check(one.history)}


def test_a_batch_that_it_gives_up_leaves_a_gap_and_out_of_order_behind_that_is_no_anomaly(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ran(loop, monkeypatch, {20: ErrorCode.INVALID_RECORD})
    failed = [event.value for event in (*one.history.of(Failed), *one.history.of(Unknown))]
    assert failed
    assert sorted(failed + one.acked) == [sent.value for sent in one.history.of(Sent)]
    assert {header.producer_epoch for header in one.headers} == {0, 1}
    assert not list(one.history.of(SequenceRefused))
    assert check(one.history) == []


def test_nothing_new_is_sent_behind_a_gap_until_the_epoch_is_raised(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = dict.fromkeys(range(20, 25), ErrorCode.NOT_ENOUGH_REPLICAS)
    one = ran(loop, monkeypatch, refusals)
    assert list(one.history.of(Failed))
    sequences = [(header.producer_epoch, header.base_sequence) for header in one.headers]
    assert sequences == sorted(sequences)
    assert max(epoch for epoch, _ in sequences) >= 1
    assert check(one.history) == []
