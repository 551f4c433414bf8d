"""Tests of the decision that adds partitions."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.metadata.controller import (
    MorePartitions,
    NewTopic,
    TopicResult,
    TopicSettings,
    create_partitions,
    create_topics,
    register_broker,
    unregister_broker,
)
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode
from tests.endpoints import plaintext

SETTINGS = TopicSettings()


def cluster(count: int = 3, factor: int = 2, brokers: int = 3, seed: int = 7) -> ClusterImage:
    """Return the image of a cluster with topic `orders`."""
    image = ClusterImage(version=0, cluster_id="c")
    for broker_id in range(1, brokers + 1):
        image, _ = register_broker(image, broker_id, plaintext("h", 9000), settings=TopicSettings())
    topic = NewTopic("orders", count, factor)
    return create_topics(image, [topic], settings=SETTINGS, rng=random.Random(seed))[0]


def add(image: ClusterImage, *wanted: MorePartitions, **options: Any) -> tuple[ClusterImage, tuple[TopicResult, ...]]:
    return create_partitions(image, wanted, **{"settings": SETTINGS, **options})


def test_partitions_are_added_after_the_existing_ones_which_do_not_change() -> None:
    before = cluster()
    image, (result,) = add(before, MorePartitions("orders", 5))
    after = image.topics["orders"]
    assert result.topic is after
    assert after.partitions[:3] == before.topics["orders"].partitions
    assert [len(state.replicas) for state in after.partitions] == [2] * 5
    assert image.topic_by_id(after.topic_id) is after


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 6), st.integers(0, 99))
def test_leaders_stay_balanced_within_one(count: int, added: int, brokers: int, seed: int) -> None:
    image, _ = add(cluster(count, 1, brokers, seed), MorePartitions("orders", count + added))
    leads = Counter(state.leader for state in image.topics["orders"].partitions)
    each = [leads[broker] for broker in image.brokers]
    assert max(each) - min(each) <= 1


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (MorePartitions("other", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MorePartitions("orders", 3), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("orders", 2), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("orders", -1), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("orders", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (MorePartitions("orders", 5, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("orders", 4, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("orders", 4, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("orders", 4, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("orders", 4, [[1, 9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_invalid_request_is_refused_and_changes_nothing(wanted: MorePartitions, error: ErrorCode) -> None:
    before = cluster()
    image, (result,) = add(before, wanted)
    assert image is before
    assert result.error == error
    assert result.message


def test_added_replicas_are_where_the_request_assigns_them() -> None:
    image, _ = add(cluster(), MorePartitions("orders", 5, [[3, 1], [1, 2]]))
    assert [state.replicas for state in image.topics["orders"].partitions[3:]] == [(3, 1), (1, 2)]


def test_a_topic_named_twice_is_refused_once() -> None:
    before = cluster()
    image, results = add(before, MorePartitions("orders", 4), MorePartitions("orders", 5))
    assert [result.error for result in results] == [ErrorCode.INVALID_REQUEST]
    assert image is before


def test_validate_only_gives_the_same_result_and_changes_nothing() -> None:
    before = cluster()
    image, (result,) = add(before, MorePartitions("orders", 4), validate_only=True)
    assert image is before
    assert result.error == ErrorCode.NONE


def test_the_limits_count_the_added_partitions() -> None:
    before = cluster()
    for settings in (TopicSettings(max_partitions=5), TopicSettings(max_partitions_per_request=2)):
        assert add(before, MorePartitions("orders", 6), settings=settings)[1][0].error == ErrorCode.POLICY_VIOLATION
        assert add(before, MorePartitions("orders", 5), settings=settings)[1][0].error == ErrorCode.NONE


def test_partitions_are_added_after_the_first_leader_has_left() -> None:
    before = cluster()
    departed = before.topics["orders"].partitions[0].replicas[0]
    before, _ = unregister_broker(before, departed, before.brokers[departed].broker_epoch, settings=TopicSettings())
    image, (result,) = add(before, MorePartitions("orders", 5))
    assert result.error == ErrorCode.NONE
    assert all(departed not in state.replicas for state in image.topics["orders"].partitions[3:])


def test_an_internal_topic_keeps_its_number_of_partitions() -> None:
    new = NewTopic("__consumer_offsets", 3, 2)
    before, _ = create_topics(cluster(), [new], settings=SETTINGS, rng=random.Random(7))
    image, (result,) = add(before, MorePartitions("__consumer_offsets", 4))
    assert (result.error, image) == (ErrorCode.INVALID_PARTITIONS, before)
