"""Tests of how handlers change the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from purgatorio.broker.api.context import submit
from purgatorio.broker.metadata import view
from purgatorio.broker.metadata.cluster_change import ClusterChange, Decide
from purgatorio.broker.metadata.controller import allocate_producer_ids
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from tests.broker.api.harness import context
from tests.error_log import ErrorLog


@pytest.fixture
def answers() -> list[Any]:
    return []


class Allocation(ClusterChange[int]):
    """Allocates a block of producer ids; `answer` makes the response."""

    def __init__(self, decide: Any, answer: Any) -> None:
        super().__init__([])
        self._decide = decide
        self._answer = answer

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[int]]:
        after, results = self._decide(image)
        return after, results

    def respond(self, results: Sequence[int]) -> Any:
        return self._answer(results)

    def refuse(self, error_code: ErrorCode) -> ErrorCode:
        return error_code


def ask(cluster: Any, answers: list[Any], decide: Any = allocate_producer_ids, answer: Any = len) -> None:
    say: Any = answers.append
    submit(cluster.admin, context(ApiKey.CREATE_TOPICS, 7), Allocation(decide, answer), say)


def test_the_broker_answers_when_it_sees_the_change_and_not_before(cluster: Any, answers: list[Any]) -> None:
    ask(cluster, answers, answer=lambda ids: (len(ids), cluster.image.next_producer_id))
    assert answers == []
    cluster.turns.run()
    assert answers == [(1000, 1000)]


def test_a_stopping_broker_sends_clients_to_another_broker(cluster: Any, answers: list[Any]) -> None:
    ask(cluster, answers)
    cluster.view.close()
    cluster.turns.run()
    assert answers == [ErrorCode.NOT_CONTROLLER]
    assert ErrorCode.NOT_CONTROLLER.retriable


def test_too_many_pending_changes_are_refused_with_a_retriable_error(
    cluster: Any, answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "MAX_PENDING_DECISIONS", 0)
    ask(cluster, answers)
    cluster.turns.run()
    assert answers == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_decision_that_raises_is_logged_and_answered(cluster: Any, answers: list[Any], error_log: ErrorLog) -> None:
    def breaks(image: Any) -> Any:
        raise ValueError("broken decision")

    ask(cluster, answers, breaks)
    cluster.turns.run()
    assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    error_log.expect("broken decision")


def test_a_response_that_raises_is_logged_and_answered(cluster: Any, answers: list[Any], error_log: ErrorLog) -> None:
    def breaks(result: Any) -> Any:
        raise ValueError("broken response")

    ask(cluster, answers, answer=breaks)
    cluster.turns.run()
    assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    error_log.expect("broken response")


class Slices(ClusterChange[int]):
    """Allocates a block of producer ids in each of three slices, of which one may fail."""

    def __init__(self, fails: int = -1) -> None:
        super().__init__([])
        self._fails = fails

    def decisions(self) -> Sequence[Decide[int]]:
        return [partial(self._decide, number) for number in range(3)]

    def _decide(self, number: int, image: ClusterImage) -> tuple[ClusterImage, Sequence[int]]:
        if number == self._fails:
            raise ValueError("broken slice")
        after, _ = allocate_producer_ids(image)
        return after, [number]

    def respond(self, results: Sequence[int]) -> Any:
        return list(results)

    def refuse(self, error_code: ErrorCode) -> Any:
        return error_code


def test_the_slices_of_a_change_are_decided_one_after_another(cluster: Any, answers: list[Any]) -> None:
    say: Any = answers.append
    submit(cluster.admin, context(ApiKey.CREATE_TOPICS, 7), Slices(), say)
    assert cluster.view.pending_decisions == 1
    cluster.turns.run()
    assert answers == [[0, 1, 2]]
    assert cluster.image.next_producer_id == 3_000


def test_a_change_whose_second_slice_fails_is_refused_and_keeps_its_first(
    cluster: Any, answers: list[Any], error_log: ErrorLog
) -> None:
    say: Any = answers.append
    submit(cluster.admin, context(ApiKey.CREATE_TOPICS, 7), Slices(fails=1), say)
    cluster.turns.run()
    assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert cluster.image.next_producer_id == 1_000
    error_log.expect("a metadata change failed")
