"""Tests of the cluster image."""

from __future__ import annotations

import dataclasses

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.metadata.image import BrokerRegistration, ClusterImage, PartitionState, Topic
from tests.endpoints import plaintext

STATE = PartitionState(leader=1, leader_epoch=0, replicas=(1, 2), isr=(1, 2))
ORDERS = Topic("orders", b"o" * 16, (STATE, STATE))
EMPTY = ClusterImage(version=0, cluster_id="c")


def broker(broker_id: int) -> BrokerRegistration:
    return BrokerRegistration(broker_id, broker_epoch=broker_id, endpoints=plaintext("h", 9000 + broker_id))


def test_a_topic_is_found_by_its_id_however_it_was_added_to_the_image() -> None:
    given = ClusterImage(version=0, cluster_id="c", topics={"orders": ORDERS})
    assert given.topic_by_id(ORDERS.topic_id) is ORDERS
    assert EMPTY.with_topics([ORDERS]).topic_by_id(ORDERS.topic_id) is ORDERS
    assert EMPTY.topic_by_id(ORDERS.topic_id) is None


@pytest.mark.parametrize("value", ["true", "TRUE", " True "])
def test_a_topic_is_tiered_by_any_value_that_a_log_takes_for_true(value: str) -> None:
    configs = {"remote.storage.enable": value}
    assert LogConfig.from_strings(configs).remote_storage_enable
    assert dataclasses.replace(ORDERS, configs=configs).is_tiered
    assert not ORDERS.is_tiered
    assert not dataclasses.replace(ORDERS, configs={"remote.storage.enable": "false"}).is_tiered


def test_a_deleted_topic_is_found_neither_by_name_nor_by_id() -> None:
    image = EMPTY.with_topics([ORDERS]).without_topics(["orders"])
    assert image.topics == {}
    assert image.topic_by_id(ORDERS.topic_id) is None


def test_a_topic_created_again_under_its_name_is_not_found_by_the_old_id() -> None:
    again = dataclasses.replace(ORDERS, topic_id=b"n" * 16)
    image = EMPTY.with_topics([ORDERS]).with_topics([again])
    assert image.topic_by_id(b"n" * 16) is again
    assert image.topic_by_id(ORDERS.topic_id) is None


def test_a_changed_topic_is_found_by_its_id_in_its_new_state() -> None:
    changed = dataclasses.replace(ORDERS, configs={"retention.ms": "1"})
    assert EMPTY.with_topics([ORDERS]).with_topics([changed]).topic_by_id(ORDERS.topic_id) is changed


@pytest.mark.parametrize(("topic", "index"), [("orders", 2), ("orders", -1), ("other", 0)])
def test_a_partition_that_does_not_exist_is_none(topic: str, index: int) -> None:
    assert EMPTY.with_topics([ORDERS]).partition(topic, index) is None


def test_a_partition_is_found_by_topic_and_number() -> None:
    assert EMPTY.with_topics([ORDERS]).partition("orders", 1) is STATE


def test_one_partition_changes_and_the_others_and_the_old_image_do_not() -> None:
    before = EMPTY.with_topics([ORDERS])
    moved = dataclasses.replace(STATE, leader=2, leader_epoch=1)
    after = before.with_partitions({("orders", 1): moved})
    assert after.topics["orders"].partitions == (STATE, moved)
    assert before.topics["orders"].partitions == (STATE, STATE)
    assert after.topic_by_id(ORDERS.topic_id) is after.topics["orders"]


def test_the_controller_is_the_live_broker_with_the_lowest_id() -> None:
    image = EMPTY.with_broker(broker(3)).with_broker(broker(1)).with_broker(broker(2))
    assert image.controller_id == 1
    assert list(image.brokers) == [1, 2, 3]
    assert image.without_broker(1).controller_id == 2
    assert EMPTY.controller_id == -1


def test_images_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        EMPTY.version = 1  # type: ignore[misc]


def test_partitions_are_counted_over_all_topics() -> None:
    other = Topic("other", b"x" * 16, (STATE,))
    assert EMPTY.with_topics([ORDERS, other]).partition_count == 3


def test_the_controllers_epoch_grows_when_another_broker_becomes_it_and_only_then() -> None:
    image = EMPTY.with_broker(broker(2))
    first = image.controller_epoch
    assert image.with_broker(broker(3)).controller_epoch == first
    assert image.with_topics([ORDERS]).controller_epoch == first
    assert image.with_broker(broker(1)).controller_epoch == first + 1
    assert image.without_broker(2).controller_epoch == first + 1
