"""Tests of the decisions about brokers and producer ids."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.metadata.controller import (
    NewTopic,
    TopicSettings,
    allocate_producer_ids,
    create_topics,
    register_broker,
    unregister_broker,
)
from broker.metadata.image import NO_LEADER, BrokerRegistration, ClusterImage, PartitionState

SETTINGS = TopicSettings()


def with_topic(image: ClusterImage, *assignments: tuple[int, ...]) -> ClusterImage:
    """The image with a topic whose partitions have these replicas."""
    new = NewTopic("orders", assignments=list(enumerate(assignments)))
    image, results = create_topics(image, [new], settings=TopicSettings(), rng=random.Random(1))
    assert results[0].topic is not None
    return image


def state(image: ClusterImage, index: int) -> PartitionState:
    found = image.partition("orders", index)
    assert found is not None
    return found


def test_a_registered_broker_is_in_the_image() -> None:
    image, epoch = register_broker(
        ClusterImage(version=0, cluster_id="c"), 4, "host", 9092, "rack", settings=TopicSettings()
    )
    assert image.brokers == {4: BrokerRegistration(4, epoch, "host", 9092, "rack")}
    assert image.controller_id == 4


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30))
def test_no_broker_epoch_is_ever_given_twice(steps: list[tuple[bool, int]]) -> None:
    image = ClusterImage(version=0, cluster_id="c")
    epochs: list[int] = []
    for registers, broker_id in steps:
        if registers:
            image, epoch = register_broker(image, broker_id, "h", 1, settings=SETTINGS)
            epochs.append(epoch)
        elif broker_id in image.brokers:
            image, _ = unregister_broker(
                image, broker_id, image.brokers[broker_id].broker_epoch, settings=TopicSettings()
            )
    assert epochs == sorted(set(epochs))


def test_what_a_leaving_broker_led_has_no_leader_in_a_new_epoch(three: ClusterImage) -> None:
    before = with_topic(three, (2, 3), (3, 2), (1, 3))
    image, left = unregister_broker(before, 2, before.brokers[2].broker_epoch, settings=SETTINGS)
    assert left
    assert state(image, 0) == PartitionState(NO_LEADER, 1, replicas=(2, 3), isr=(3,), partition_epoch=1)
    assert state(image, 1) == PartitionState(3, 0, replicas=(3, 2), isr=(3,), partition_epoch=1)
    assert state(image, 2) is state(before, 2)
    assert 2 not in image.brokers


def test_an_earlier_life_of_a_broker_cannot_take_the_new_one_out(three: ClusterImage) -> None:
    old = three.brokers[2].broker_epoch
    image, _ = register_broker(three, 2, "localhost", 9002, settings=SETTINGS)
    assert unregister_broker(image, 2, old, settings=SETTINGS) == (image, False)
    assert unregister_broker(image, 9, 1, settings=SETTINGS)[0] is image


def test_a_broker_that_registers_again_comes_back_without_leaderships_and_out_of_sync(three: ClusterImage) -> None:
    before = with_topic(three, (2, 3), (3, 2))
    image, epoch = register_broker(before, 2, "localhost", 9002, settings=SETTINGS)
    assert epoch > before.brokers[2].broker_epoch
    assert state(image, 0).leader == NO_LEADER
    assert state(image, 0).isr == (3,)
    assert state(image, 1).leader == 3
    assert state(image, 1).isr == (3,)


def test_when_the_last_replica_goes_nobody_is_in_sync(three: ClusterImage) -> None:
    before = with_topic(three, (2,))
    image, _ = unregister_broker(before, 2, before.brokers[2].broker_epoch, settings=SETTINGS)
    assert state(image, 0) == PartitionState(NO_LEADER, 1, replicas=(2,), isr=(), partition_epoch=1)


def test_producer_ids_are_given_in_blocks_that_do_not_overlap(three: ClusterImage) -> None:
    image, first = allocate_producer_ids(three, 10)
    image, second = allocate_producer_ids(image)
    assert first == range(10)
    assert second == range(10, 1010)
    assert image.next_producer_id == 1010


def test_decisions_leave_the_image_that_they_were_given_as_it_was(make_image: Any) -> None:
    before = with_topic(make_image(1, 2, 3), (2, 3))
    same = with_topic(make_image(1, 2, 3), (2, 3))
    unregister_broker(before, 2, before.brokers[2].broker_epoch, settings=SETTINGS)
    register_broker(before, 2, "h", 1, settings=SETTINGS)
    allocate_producer_ids(before)
    assert before == same
