"""Producer ids come in blocks, unique in the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.txn import producer_ids
from purgatorio.broker.txn.producer_ids import ProducerIds


class Store:
    """A metadata store that commits when the test says so."""

    def __init__(self) -> None:
        self.image = ClusterImage(0, "test")
        self.submitted: list[tuple[Any, Any, Any]] = []

    def submit(self, decide: Any, done: Any, failed: Any = None) -> None:
        self.submitted.append((decide, done, failed))

    def deliver(self) -> None:
        decide, done, _ = self.submitted.pop(0)
        self.image, result = decide(self.image)
        done(result)


def test_producer_ids_are_allocated_in_blocks_and_never_twice() -> None:
    store = Store()
    ids, others = ProducerIds(store, block_size=2), ProducerIds(store, block_size=2)  # type: ignore[arg-type]
    given: list[int | None] = []
    for source in (ids, others, ids, ids, others):
        source.next(given.append)
        while store.submitted:
            store.deliver()
    assert given == [0, 2, 1, 4, 3]


def test_a_request_waits_for_the_next_block_when_no_id_is_left() -> None:
    store = Store()
    ids = ProducerIds(store, block_size=2)  # type: ignore[arg-type]
    given: list[int | None] = []
    for _ in range(3):
        ids.next(given.append)
    assert (given, len(store.submitted)) == ([], 1)
    store.deliver()
    assert given == [0, 1]
    store.deliver()
    assert given == [0, 1, 2]


def test_the_next_block_is_asked_for_when_nine_tenths_are_used_so_that_no_request_waits() -> None:
    store = Store()
    ids = ProducerIds(store, block_size=20)  # type: ignore[arg-type]
    given: list[int | None] = []
    ids.next(given.append)
    store.deliver()
    for _ in range(16):
        ids.next(given.append)
    assert store.submitted == []
    for _ in range(2):
        ids.next(given.append)
    assert len(store.submitted) == 1, "asked once"
    store.deliver()
    for _ in range(20):
        ids.next(given.append)
    assert given == list(range(39))


def test_a_block_that_was_refused_ahead_of_time_is_asked_for_again() -> None:
    store = Store()
    ids = ProducerIds(store, block_size=10)  # type: ignore[arg-type]
    given: list[int | None] = []
    ids.next(given.append)
    store.deliver()
    for _ in range(8):
        ids.next(given.append)
    _, _, refused = store.submitted.pop()
    refused(RuntimeError("no majority"))
    assert given == list(range(9)), "a request that has an id fails for no other block"
    ids.next(given.append)
    store.deliver()
    ids.next(given.append)
    assert given == list(range(11))


def test_the_number_of_requests_that_wait_for_a_block_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_ids, "MAX_WAITING", 2)
    store = Store()
    ids = ProducerIds(store)  # type: ignore[arg-type]
    given: list[int | None] = []
    for _ in range(3):
        ids.next(given.append)
    assert given == [None]
    store.deliver()
    assert given == [None, 0, 1]
