"""Tests of the decisions about brokers and producer ids."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.metadata.controller import (
    DuplicateBrokerId,
    NewTopic,
    TopicSettings,
    allocate_producer_ids,
    create_topics,
    fence_broker,
    random_epoch_step,
    register_broker,
    resume_broker,
    unregister_broker,
)
from purgatorio.broker.metadata.image import NO_LEADER, BrokerRegistration, ClusterImage, PartitionState
from tests.endpoints import plaintext

SETTINGS = TopicSettings()


def with_topic(image: ClusterImage, *assignments: tuple[int, ...]) -> ClusterImage:
    """Return the image with a topic whose partitions have these replicas."""
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
        ClusterImage(version=0, cluster_id="c"), 4, plaintext("host", 9092), "rack", settings=TopicSettings()
    )
    assert image.brokers == {4: BrokerRegistration(4, epoch, plaintext("host", 9092), "rack")}
    assert image.controller_id == 4


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30))
def test_every_registration_has_a_new_broker_epoch(steps: list[tuple[bool, int]]) -> None:
    image = ClusterImage(version=0, cluster_id="c")
    epochs: list[int] = []
    for registers, broker_id in steps:
        if registers and broker_id not in image.brokers:
            image, epoch = register_broker(image, broker_id, plaintext("h", 1), settings=SETTINGS)
            epochs.append(epoch)
        elif not registers and broker_id in image.brokers:
            epoch = image.brokers[broker_id].broker_epoch
            image, _ = unregister_broker(image, broker_id, epoch, settings=SETTINGS)
    assert epochs == sorted(set(epochs))


def test_the_next_broker_epoch_cannot_be_guessed_and_is_larger_than_all_before() -> None:
    """A fetch with a broker's id and epoch is taken as that follower's."""
    image, rng = ClusterImage(version=0, cluster_id="c"), random.Random(7)
    epochs = []
    for broker_id in range(1, 21):
        step = random_epoch_step(rng)
        image, epoch = register_broker(image, broker_id, plaintext("h", 1), epoch_step=step, settings=SETTINGS)
        epochs.append(epoch)
    steps = [after - before for before, after in itertools.pairwise([0, *epochs])]
    assert len(set(steps)) == 20
    assert min(steps) > 2**32
    assert max(epochs) < 2**63 // 1_000, "int64 must have room for years of registrations"


def leave(image: ClusterImage, broker_id: int) -> ClusterImage:
    image, left = unregister_broker(image, broker_id, image.brokers[broker_id].broker_epoch, settings=SETTINGS)
    assert left
    return image


def fence(image: ClusterImage, broker_id: int) -> ClusterImage:
    image, fenced = fence_broker(image, image.brokers[broker_id].lease_id, settings=SETTINGS)
    assert fenced == broker_id
    return image


def resume(image: ClusterImage, broker_id: int, lease_id: int = 99) -> ClusterImage:
    epoch = image.brokers[broker_id].broker_epoch
    image, resumed = resume_broker(image, broker_id, epoch, lease_id, settings=SETTINGS)
    assert resumed
    return image


def test_the_next_in_sync_replica_leads_in_a_new_epoch_when_the_leader_leaves(three: ClusterImage) -> None:
    before = with_topic(three, (2, 3), (3, 2), (1, 3))
    image = leave(before, 2)
    third = (before.brokers[3].incarnation,)
    assert state(image, 0) == PartitionState(3, 1, replicas=(2, 3), isr=third, partition_epoch=1)
    assert state(image, 1) == PartitionState(3, 0, replicas=(3, 2), isr=third, partition_epoch=1)
    assert state(image, 2) is state(before, 2)
    assert 2 not in image.brokers


def test_an_earlier_incarnation_of_a_broker_cannot_unregister_the_new_one(three: ClusterImage) -> None:
    old = three.brokers[2].broker_epoch
    image, _ = register_broker(leave(three, 2), 2, "localhost", 9002, settings=SETTINGS)
    assert unregister_broker(image, 2, old, settings=SETTINGS) == (image, False)
    assert unregister_broker(image, 9, 1, settings=SETTINGS)[0] is image
    assert resume_broker(image, 2, old, 99, settings=SETTINGS) == (image, False)


def test_a_registration_that_was_committed_without_an_answer_is_found_by_its_lease() -> None:
    """The broker decides again: on an image that has its own registration."""
    none = ClusterImage(version=0, cluster_id="c")
    image, epoch = register_broker(none, 1, plaintext("a", 1), lease_id=7, settings=SETTINGS)
    assert register_broker(image, 1, plaintext("a", 1), lease_id=7, settings=SETTINGS) == (image, epoch)
    with pytest.raises(DuplicateBrokerId):
        register_broker(image, 1, plaintext("a", 1), lease_id=8, settings=SETTINGS)
    without_lease, _ = register_broker(none, 1, plaintext("a", 1), settings=SETTINGS)
    with pytest.raises(DuplicateBrokerId):
        register_broker(without_lease, 1, plaintext("a", 1), settings=SETTINGS)


def test_the_id_of_a_live_broker_cannot_be_registered_again(three: ClusterImage) -> None:
    with pytest.raises(DuplicateBrokerId, match="broker id 2 is in use by the broker at localhost:9002"):
        register_broker(three, 2, plaintext("elsewhere", 1), settings=SETTINGS)


def test_a_fenced_broker_leads_no_partition_and_is_in_no_isr(three: ClusterImage) -> None:
    image = fence(with_topic(three, (2, 3), (3, 2)), 2)
    assert image.brokers[2].fenced
    assert [(state(image, i).leader, state(image, i).isr_ids) for i in (0, 1)] == [(3, (3,)), (3, (3,))]
    assert image.controller_id == 1
    assert fence_broker(image, image.brokers[2].lease_id, settings=SETTINGS) == (image, None)


def test_an_old_lease_fences_no_broker(three: ClusterImage) -> None:
    old = three.brokers[2].lease_id
    image = resume(three, 2, lease_id=99)
    assert fence_broker(image, old, settings=SETTINGS) == (image, None)


def test_the_last_replica_leads_again_as_the_same_incarnation(three: ClusterImage) -> None:
    fenced = fence(with_topic(three, (2,)), 2)
    assert (state(fenced, 0).leader, state(fenced, 0).isr, state(fenced, 0).elr_ids) == (NO_LEADER, (), (2,))
    image = resume(fenced, 2)
    assert (state(image, 0).leader, state(image, 0).leader_epoch, state(image, 0).isr_ids) == (2, 2, (2,))


def test_the_last_replica_is_not_elected_as_a_new_incarnation(three: ClusterImage) -> None:
    fenced = fence(with_topic(three, (2,)), 2)
    image, epoch = register_broker(fenced, 2, plaintext("localhost", 9002), settings=SETTINGS)
    assert epoch > fenced.brokers[2].broker_epoch
    assert (state(image, 0).leader, state(image, 0).isr, state(image, 0).elr) == (NO_LEADER, (), ())


def test_when_the_last_replica_leaves_the_isr_is_empty(three: ClusterImage) -> None:
    image = leave(with_topic(three, (2,)), 2)
    assert state(image, 0) == PartitionState(NO_LEADER, 1, replicas=(2,), isr=(), partition_epoch=1)


def test_producer_ids_are_allocated_in_blocks_that_do_not_overlap(three: ClusterImage) -> None:
    image, first = allocate_producer_ids(three, 10)
    image, second = allocate_producer_ids(image)
    assert first == range(10)
    assert second == range(10, 1010)
    assert image.next_producer_id == 1010


def test_decisions_do_not_change_the_given_image(make_image: Any) -> None:
    before = with_topic(make_image(1, 2, 3), (2, 3))
    same = with_topic(make_image(1, 2, 3), (2, 3))
    fence(before, 2)
    leave(before, 2)
    allocate_producer_ids(before)
    assert before == same
