"""AddOffsetsToTxn: the group's partition of the offsets topic joins the transaction, and is created first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.api import add_offsets_to_txn
from purgatorio.broker.group.config import GroupConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest


class Coordinator:
    """The part of `Transactions` that the handler uses."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.partitions = self
        self.answer = ErrorCode.NONE
        self.added: list[Any] = []

    @property
    def image(self) -> Any:
        return self._cluster.image

    def add(self, transactional_id: str, producer: Any, partitions: Any, done: Any, **how: Any) -> None:
        self.added.append((transactional_id, *producer, *partitions, how["version"]))
        done(self.answer)


@pytest.fixture
def coordinator(cluster: Any) -> Coordinator:
    return Coordinator(cluster)


def ask(cluster: Any, coordinator: Any, version: int = 3, **fields: Any) -> int:
    api: Any = SimpleNamespace(
        handle=lambda admin, *rest: add_offsets_to_txn.handle(admin, GroupConfig(), coordinator, *rest)
    )
    known = {"transactional_id": "billing", "producer_id": 7, "producer_epoch": 1, "group_id": "orders-reader"}
    return int(cluster.ask(api, version, AddOffsetsToTxnRequest(**{**known, **fields})).error_code)


@pytest.mark.parametrize("version", range(5))
def test_the_partition_of_the_group_is_added(cluster: Any, coordinator: Coordinator, version: int) -> None:
    assert OFFSETS_TOPIC not in cluster.image.topics
    assert ask(cluster, coordinator, version) == ErrorCode.NONE
    tp = TopicPartition(OFFSETS_TOPIC, coordinator_partition("orders-reader", 50))
    assert coordinator.added == [("billing", 7, 1, tp, 1)]
    assert ask(cluster, coordinator, version) == ErrorCode.NONE


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_producer_is_told_in_the_words_of_its_version(
    cluster: Any, coordinator: Coordinator, version: int, code: ErrorCode
) -> None:
    coordinator.answer = ErrorCode.PRODUCER_FENCED
    assert ask(cluster, coordinator, version) == code


def test_ids_are_needed(cluster: Any, coordinator: Coordinator) -> None:
    assert ask(cluster, coordinator, transactional_id="") == ErrorCode.INVALID_REQUEST
    assert ask(cluster, coordinator, group_id="") == ErrorCode.INVALID_GROUP_ID
    assert coordinator.added == []


def test_no_topic_means_try_again(cluster: Any, coordinator: Coordinator) -> None:
    for broker_id in (1, 2, 3):
        cluster.fence(broker_id)
    assert ask(cluster, coordinator) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.added == []
