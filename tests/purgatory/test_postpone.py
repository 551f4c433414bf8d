"""Deadlines of parked operations are moved, later or earlier, and nothing else of them changes."""

from __future__ import annotations

from typing import Any

import pytest


def test_a_postponed_operation_expires_at_its_new_deadline_only(house: Any) -> None:
    operation = house.park("member", delay_ms=100)
    house.advance(60)
    assert house.purgatory.postpone(operation, 100)
    house.advance(99)
    assert operation.history == []
    house.advance(2)
    assert operation.history == ["answered", "expired"]
    house.assert_empty()


def test_a_deadline_may_also_come_earlier(house: Any) -> None:
    operation = house.park("member", delay_ms=10_000)
    house.purgatory.postpone(operation, 10)
    house.advance(11)
    assert operation.completed


def test_a_postponed_operation_keeps_its_id_and_its_keys_and_is_not_reported(house: Any) -> None:
    operation = house.park("member", delay_ms=1_000)
    (before,) = house.purgatory.operations()
    for _ in range(3):
        house.advance(500)
        house.purgatory.postpone(operation, 1_000)
    (after,) = house.purgatory.operations()
    assert after == before._replace(deadline_ms=before.deadline_ms + 1_500)
    assert house.timer.size == house.purgatory.watched == 1
    assert house.finished == []


def test_at_zero_the_operation_expires_before_postpone_returns(house: Any) -> None:
    operation = house.park("member")
    house.purgatory.postpone(operation, 0)
    assert operation.history == ["answered", "expired"]


def test_an_operation_that_has_ended_or_waits_elsewhere_is_not_postponed(house: Any, make_house: Any) -> None:
    operation = house.park("member")
    assert not make_house().purgatory.postpone(operation, 10)
    operation.force_complete()
    assert not house.purgatory.postpone(operation, 10)
    house.assert_empty()


def test_a_delay_that_is_no_integer_is_refused_and_changes_nothing(house: Any) -> None:
    operation = house.park("member", delay_ms=100)
    with pytest.raises(TypeError):
        house.purgatory.postpone(operation, 1.5)
    house.advance(101)
    assert operation.completed
