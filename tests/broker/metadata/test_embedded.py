"""Tests of what every metadata store promises to a broker, made with those of one process and of several."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.metadata import embedded
from purgatorio.broker.metadata import view as view_module
from purgatorio.broker.metadata.embedded import EmbeddedStore, EmbeddedView
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.store import MetadataStore, StoreClosed, StoreContended, StoreOverloaded
from purgatorio.purgatory.clock import ManualClock
from tests.broker.metadata.stores import StoreBehindConnections
from tests.error_log import ErrorLog


def take_id(image: ClusterImage) -> tuple[ClusterImage, int]:
    """A decision: allocate the next producer id."""
    return dataclasses.replace(image, next_producer_id=image.next_producer_id + 1), image.next_producer_id


def look(image: ClusterImage) -> tuple[ClusterImage, int]:
    """A decision that changes nothing."""
    return image, image.next_producer_id


embedded_alone = pytest.mark.parametrize("store", [EmbeddedStore], indirect=True)


@pytest.fixture(params=[EmbeddedStore, StoreBehindConnections])
def store(turns: Any, request: Any) -> EmbeddedStore:
    made: EmbeddedStore = request.param("cluster", turns.call_soon, ManualClock())
    return made


def test_a_view_is_a_metadata_store(store: EmbeddedStore) -> None:
    view: MetadataStore = store.open()
    assert view.image == ClusterImage(version=0, cluster_id="cluster")


def test_nothing_is_delivered_before_submit_returns(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    seen: list[object] = []
    view.watch(seen.append)
    view.submit(take_id, seen.append)
    assert seen == []
    assert view.image.version == 0
    turns.run()
    assert seen == [view.image, 0]
    assert view.image.version == 1


def test_done_is_called_when_the_image_shows_the_change_and_the_watchers_were_called(
    store: EmbeddedStore, turns: Any
) -> None:
    view = store.open()
    events: list[tuple[str, int]] = []
    view.watch(lambda image: events.append(("watch", view.image.next_producer_id)))
    view.submit(take_id, lambda _: events.append(("done", view.image.next_producer_id)))
    turns.run()
    assert events == [("watch", 1), ("done", 1)]


def test_every_view_sees_a_change(store: EmbeddedStore, turns: Any) -> None:
    views = [store.open() for _ in range(3)]
    views[1].submit(take_id, lambda _: None)
    turns.run()
    assert all(view.image == store.image for view in views)


def test_a_view_that_is_opened_later_shows_the_committed_image(store: EmbeddedStore, turns: Any) -> None:
    store.open().submit(take_id, lambda _: None)
    turns.run()
    assert store.open().image.version == 1


def test_a_decision_that_changes_nothing_makes_no_version_and_calls_no_watcher(
    store: EmbeddedStore, turns: Any
) -> None:
    view = store.open()
    seen: list[object] = []
    results: list[int] = []
    view.watch(seen.append)
    view.submit(look, results.append)
    turns.run()
    assert (results, seen, store.image.version) == ([0], [], 0)


def test_after_a_conflict_a_broker_decides_again_on_the_committed_image(store: EmbeddedStore, turns: Any) -> None:
    first, second = store.open(), store.open()
    bases: list[int] = []
    results: list[int] = []

    def decide(image: ClusterImage) -> tuple[ClusterImage, int]:
        bases.append(image.version)
        return take_id(image)

    first.submit(take_id, results.append)
    second.submit(decide, results.append)
    turns.run()
    assert bases == [0, 1]
    assert sorted(results) == [0, 1]
    assert store.image.next_producer_id == 2


def test_a_decision_that_changes_nothing_is_made_again_if_its_image_was_stale(store: EmbeddedStore, turns: Any) -> None:
    first, second = store.open(), store.open()
    results: list[int] = []
    first.submit(take_id, lambda _: None)
    second.submit(look, results.append)
    turns.run()
    assert results == [1]


def test_concurrent_decisions_of_many_brokers_are_all_committed(store: EmbeddedStore, turns: Any) -> None:
    views = [store.open() for _ in range(7)]
    results: list[int] = []
    for _ in range(20):
        for view in views:
            view.submit(take_id, results.append)
    turns.run()
    assert sorted(results) == list(range(140))
    assert store.image.version == 140


def test_decisions_of_one_broker_are_made_in_their_order(store: EmbeddedStore, turns: Any) -> None:
    view, rival = store.open(), store.open()
    results: list[int] = []
    for _ in range(10):
        view.submit(take_id, results.append)
        rival.submit(take_id, lambda _: None)
    turns.run()
    assert results == sorted(results)
    assert len(results) == 10


def test_the_version_that_a_broker_sees_never_decreases(store: EmbeddedStore, turns: Any) -> None:
    views = [store.open() for _ in range(3)]
    versions: list[list[int]] = [[], [], []]
    for view, seen in zip(views, versions, strict=True):
        view.watch(lambda image, seen=seen: seen.append(image.version))  # type: ignore[misc]
        for _ in range(5):
            view.submit(take_id, lambda _: None)
    turns.run()
    for seen in versions:
        assert seen == sorted(set(seen))
        assert seen[-1] == 15


def test_a_callback_may_submit_again(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    results: list[int] = []

    def again(result: int) -> None:
        results.append(result)
        if result < 3:
            view.submit(take_id, again)

    view.submit(take_id, again)
    turns.run()
    assert results == [0, 1, 2, 3]


def test_an_ended_watch_is_not_called_and_can_be_ended_twice(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    seen: list[object] = []
    unwatch = view.watch(seen.append)
    unwatch()
    unwatch()
    view.submit(take_id, lambda _: None)
    turns.run()
    assert seen == []


def test_a_watch_ended_by_another_watcher_of_the_same_image_is_not_called(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    seen: list[object] = []
    enders: list[Callable[[], None]] = []
    view.watch(lambda _: enders[0]())
    enders.append(view.watch(seen.append))
    view.submit(take_id, lambda _: None)
    turns.run()
    assert seen == []


def test_the_same_function_can_watch_twice(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    seen: list[object] = []
    unwatch = view.watch(seen.append)
    view.watch(seen.append)
    unwatch()
    view.submit(take_id, lambda _: None)
    turns.run()
    assert len(seen) == 1


def test_a_watcher_that_raises_is_logged_and_the_others_are_called(
    store: EmbeddedStore, turns: Any, error_log: ErrorLog
) -> None:
    view = store.open()
    seen: list[object] = []

    def breaks(_: ClusterImage) -> None:
        raise ValueError("broken watcher")

    view.watch(breaks)
    view.watch(seen.append)
    view.submit(take_id, seen.append)
    turns.run()
    assert len(seen) == 2
    error_log.expect("broken watcher")


def test_a_decision_that_raises_fails_alone(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    failures: list[Exception] = []
    results: list[int] = []

    def breaks(image: ClusterImage) -> tuple[ClusterImage, int]:
        raise ValueError("broken decision")

    view.submit(breaks, results.append, failures.append)
    view.submit(take_id, results.append, failures.append)
    assert failures == []
    turns.run()
    assert [str(failure) for failure in failures] == ["broken decision"]
    assert results == [0]


def test_a_failure_without_a_callback_is_logged(store: EmbeddedStore, turns: Any, error_log: ErrorLog) -> None:
    def breaks(image: ClusterImage) -> tuple[ClusterImage, int]:
        raise ValueError("broken decision")

    store.open().submit(breaks, lambda _: None)
    turns.run()
    error_log.expect("broken decision")


def outcomes(view: EmbeddedView) -> tuple[list[int], list[Exception]]:
    results: list[int] = []
    failures: list[Exception] = []
    view.submit(take_id, results.append, failures.append)
    return results, failures


def test_closing_fails_pending_decisions_and_ends_the_watches(store: EmbeddedStore, turns: Any) -> None:
    view, other = store.open(), store.open()
    seen: list[object] = []
    view.watch(seen.append)
    results, failures = outcomes(view)
    view.close()
    view.close()
    assert failures == []
    other.submit(take_id, lambda _: None)
    turns.run()
    assert [type(failure) for failure in failures] == [StoreClosed]
    assert (results, seen) == ([], [])
    assert store.image.version == 1
    assert view.pending_decisions == 0


@embedded_alone
def test_closing_between_decision_and_commit_changes_nothing(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    results, failures = outcomes(view)
    turns.turn()
    view.close()
    turns.run()
    assert [type(failure) for failure in failures] == [StoreClosed]
    assert results == []
    assert store.image.version == 0


def test_closing_while_the_answer_is_under_way_fails_the_decision_only(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    results, failures = outcomes(view)
    turns.turn()
    turns.turn()
    view.close()
    turns.run()
    assert store.image.version == 1
    assert (results, [type(failure) for failure in failures]) == ([], [StoreClosed])


def test_a_closed_view_refuses_decisions(store: EmbeddedStore, turns: Any) -> None:
    view = store.open()
    view.close()
    _, failures = outcomes(view)
    assert failures == []
    turns.run()
    assert [type(failure) for failure in failures] == [StoreClosed]


def test_decisions_past_the_limit_are_refused_and_the_others_made(
    store: EmbeddedStore, turns: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "MAX_PENDING_DECISIONS", 2)
    view = store.open()
    all_outcomes = [outcomes(view) for _ in range(3)]
    turns.run()
    assert [results for results, _ in all_outcomes] == [[0], [1], []]
    assert [type(failure) for failure in all_outcomes[2][1]] == [StoreOverloaded]


def test_a_decision_that_always_conflicts_fails(
    store: EmbeddedStore, turns: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "MAX_COMMIT_ATTEMPTS", 3)
    view = store.open()
    attempts: list[int] = []

    def decide(image: ClusterImage) -> tuple[ClusterImage, int]:
        attempts.append(image.version)
        if len(attempts) <= 3:
            newer, _ = take_id(store.image)
            assert store._compare_and_set(store.image, newer)
        return take_id(image)

    results: list[int] = []
    failures: list[Exception] = []
    view.submit(decide, results.append, failures.append)
    view.submit(take_id, results.append, failures.append)
    turns.run()
    assert attempts == [0, 1, 2]
    assert [type(failure) for failure in failures] == [StoreContended]
    assert results == [3]


async def test_it_runs_on_a_real_loop() -> None:
    loop = asyncio.get_running_loop()
    store = EmbeddedStore("cluster", loop.call_soon, ManualClock())
    first, second = store.open(), store.open()
    got: asyncio.Future[int] = loop.create_future()
    second.watch(lambda image: got.set_result(image.next_producer_id))
    first.submit(take_id, lambda _: None)
    assert await asyncio.wait_for(got, 5) == 1


@embedded_alone
def test_a_link_that_is_held_delivers_everything_in_order_afterwards(store: EmbeddedStore, turns: Any) -> None:
    link = embedded.DirectLink(turns.call_soon)
    cut_off, other = store.open(link), store.open()
    results: list[int] = []
    link.hold()
    link.hold()
    cut_off.submit(take_id, results.append)
    other.submit(take_id, results.append)
    turns.run()
    assert (results, cut_off.image.version, other.image.version) == ([0], 0, 1)
    link.release()
    turns.run()
    assert (results, cut_off.image.version) == ([0, 1], 2)
