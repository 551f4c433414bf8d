"""Tests of the decisions that create and delete topics."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.metadata.controller import (
    NewTopic,
    TopicReference,
    TopicResult,
    TopicSettings,
    create_topics,
    delete_topics,
    register_broker,
)
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode
from tests.endpoints import plaintext

SETTINGS = TopicSettings(num_partitions=2, replication_factor=3)


def create(image: ClusterImage, *topics: NewTopic, **options: Any) -> tuple[ClusterImage, tuple[TopicResult, ...]]:
    return create_topics(image, topics, **{"settings": SETTINGS, "rng": random.Random(7), **options})


def errors(results: tuple[TopicResult, ...]) -> list[tuple[str | None, ErrorCode]]:
    return [(result.name, result.error) for result in results]


def test_a_topic_is_created_with_the_requested_partitions_and_replicas(three: ClusterImage) -> None:
    image, (result,) = create(three, NewTopic("orders", 4, 2, configs={"retention.ms": "1000"}))
    topic = image.topics["orders"]
    assert result == TopicResult("orders", topic, topic_id=topic.topic_id)
    assert len(topic.partitions) == 4
    assert all(len(state.replicas) == 2 for state in topic.partitions)
    assert topic.configs == {"retention.ms": "1000"}
    assert image.topic_by_id(topic.topic_id) is topic


def test_minus_one_means_the_defaults(three: ClusterImage) -> None:
    image, _ = create(three, NewTopic("orders"))
    assert [len(state.replicas) for state in image.topics["orders"].partitions] == [3, 3]


def test_topic_ids_are_version_4_uuids_and_differ(three: ClusterImage) -> None:
    image, _ = create(three, *(NewTopic(f"t{n}", 1, 1) for n in range(50)))
    ids = {topic.topic_id for topic in image.topics.values()}
    assert len(ids) == 50
    assert all(len(topic_id) == 16 and topic_id[6] >> 4 == 4 for topic_id in ids)


def test_the_same_seed_creates_the_same_topic(three: ClusterImage) -> None:
    assert create(three, NewTopic("orders", 5, 2)) == create(three, NewTopic("orders", 5, 2))


def test_single_partition_topics_are_not_all_placed_on_one_broker(three: ClusterImage) -> None:
    image, _ = create(three, *(NewTopic(f"t{n}", 1, 1) for n in range(30)))
    assert {topic.partitions[0].leader for topic in image.topics.values()} == {1, 2, 3}


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("orders", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("orders", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("orders", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("orders", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("orders", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("orders", configs={"retention.mss": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("orders", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("orders", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("orders", 1, -1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("orders", -1, 1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("orders", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("orders", assignments=[(0, [1]), (0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("orders", assignments=[(0, [1]), (1, [1, 2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("orders", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("orders", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("orders", assignments=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_invalid_topic_is_refused_and_changes_nothing(
    three: ClusterImage, topic: NewTopic, error: ErrorCode
) -> None:
    image, (result,) = create(three, topic)
    assert image is three
    assert result.error == error
    assert result.message
    assert result.topic is None


def test_the_error_for_a_misspelt_config_names_the_similar_config(three: ClusterImage) -> None:
    _, (result,) = create(three, NewTopic("orders", configs={"retention.mss": "1"}))
    assert "retention.ms" in (result.message or "")


def test_replicas_are_where_the_request_assigns_them(three: ClusterImage) -> None:
    image, (result,) = create(three, NewTopic("orders", assignments=[(1, [2, 3]), (0, [3, 1])]))
    assert result.error == ErrorCode.NONE
    assert [state.replicas for state in image.topics["orders"].partitions] == [(3, 1), (2, 3)]
    assert [state.leader for state in image.topics["orders"].partitions] == [3, 2]


def test_min_insync_replicas_may_be_above_the_replication_factor_as_in_kafka(three: ClusterImage) -> None:
    _, (result,) = create(three, NewTopic("orders", 1, 1, configs={"min.insync.replicas": "2"}))
    assert result.error == ErrorCode.NONE


def test_a_name_given_twice_is_refused_once_and_the_others_are_created(three: ClusterImage) -> None:
    image, results = create(three, NewTopic("twice"), NewTopic("once"), NewTopic("twice"))
    assert errors(results) == [("twice", ErrorCode.INVALID_REQUEST), ("once", ErrorCode.NONE)]
    assert list(image.topics) == ["once"]


def test_a_topic_that_exists_is_not_created_again(three: ClusterImage) -> None:
    before, _ = create(three, NewTopic("orders"))
    image, results = create(before, NewTopic("orders", 5, 1))
    assert errors(results) == [("orders", ErrorCode.TOPIC_ALREADY_EXISTS)]
    assert image is before


@pytest.mark.parametrize("first", ["a.b_c", "a_b.c", "a.b.c"])
def test_names_that_differ_only_in_dots_and_underscores_collide(three: ClusterImage, first: str) -> None:
    before, _ = create(three, NewTopic(first))
    image, results = create(before, NewTopic("a_b_c"))
    assert errors(results) == [("a_b_c", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert first in (results[0].message or "")
    assert image is before


def test_names_of_one_request_can_collide_too(three: ClusterImage) -> None:
    image, results = create(three, NewTopic("a.b"), NewTopic("a_b"))
    assert errors(results) == [("a.b", ErrorCode.NONE), ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert list(image.topics) == ["a.b"]


def test_validate_only_gives_the_same_result_and_changes_nothing(three: ClusterImage) -> None:
    image, results = create(three, NewTopic("good"), NewTopic("bad", 0), validate_only=True)
    assert image is three
    assert errors(results) == [("good", ErrorCode.NONE), ("bad", ErrorCode.INVALID_PARTITIONS)]
    assert results[0].topic is not None


def test_one_request_cannot_create_more_partitions_than_its_limit(three: ClusterImage) -> None:
    settings = TopicSettings(max_partitions_per_request=10)
    image, results = create(three, NewTopic("a", 6, 1), NewTopic("b", 5, 1), NewTopic("c", 4, 1), settings=settings)
    assert errors(results) == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.POLICY_VIOLATION),
        ("c", ErrorCode.NONE),
    ]
    assert image.partition_count == 10


def test_the_cluster_cannot_hold_more_partitions_than_its_limit(three: ClusterImage) -> None:
    settings = TopicSettings(max_partitions=10)
    before, _ = create(three, NewTopic("a", 8, 1), settings=settings)
    assigned = NewTopic("b", assignments=[(index, [1]) for index in range(3)])
    image, results = create(before, assigned, settings=settings)
    assert errors(results) == [("b", ErrorCode.POLICY_VIOLATION)]
    assert image is before


def test_a_huge_number_of_partitions_is_refused_before_any_is_created(three: ClusterImage) -> None:
    _, results = create(three, NewTopic("a", 2**31 - 1, 1))
    assert errors(results) == [("a", ErrorCode.POLICY_VIOLATION)]


def test_without_brokers_no_topic_can_be_created() -> None:
    _, results = create(ClusterImage(version=0, cluster_id="c"), NewTopic("a", 1, 1))
    assert errors(results) == [("a", ErrorCode.INVALID_REPLICATION_FACTOR)]


names = st.one_of(st.sampled_from(["a", "b", "a.b", "a_b", "!", ""]), st.text(max_size=4))
new_topics = st.builds(
    NewTopic,
    name=names,
    num_partitions=st.integers(-3, 9),
    replication_factor=st.integers(-3, 5),
    assignments=st.lists(st.tuples(st.integers(-1, 3), st.lists(st.integers(0, 4), max_size=4)), max_size=3),
)


@given(st.lists(new_topics, max_size=6), st.integers(0, 2**32))
def test_any_request_has_one_result_for_each_name_and_leaves_the_image_consistent(
    topics: list[NewTopic], seed: int
) -> None:
    before = ClusterImage(version=0, cluster_id="c")
    for broker_id in (1, 2, 3):
        before, _ = register_broker(before, broker_id, plaintext("h", 9000), settings=TopicSettings())
    image, results = create_topics(before, topics, settings=SETTINGS, rng=random.Random(seed))
    assert [result.name for result in results] == list(dict.fromkeys(topic.name for topic in topics))
    created = {result.name for result in results if result.error == ErrorCode.NONE}
    assert set(image.topics) == created
    assert (image is before) == (not created)
    assert before.topics == {}
    for topic in image.topics.values():
        assert topic.partitions
        assert len({len(state.replicas) for state in topic.partitions}) == 1
        for state in topic.partitions:
            assert len(set(state.replicas)) == len(state.replicas)
            assert state.leader == state.replicas[0]
            assert state.leader in image.brokers


@pytest.fixture
def with_topics(three: ClusterImage) -> ClusterImage:
    image, _ = create(three, NewTopic("a", 1, 1), NewTopic("b", 1, 1))
    return image


def test_topics_are_deleted_by_name_and_by_id(with_topics: ClusterImage) -> None:
    a, b = with_topics.topics["a"], with_topics.topics["b"]
    image, results = delete_topics(with_topics, [TopicReference("a"), TopicReference(None, b.topic_id)])
    assert image.topics == {}
    assert results == (
        TopicResult("a", a, topic_id=a.topic_id),
        TopicResult("b", b, topic_id=b.topic_id),
    )


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        (TopicReference("c"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicReference(None, b"?" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        (TopicReference("a", b"?" * 16), ErrorCode.INVALID_REQUEST),
        (TopicReference(None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_deletion_is_refused_and_the_other_topics_are_deleted(
    with_topics: ClusterImage, reference: TopicReference, error: ErrorCode
) -> None:
    image, results = delete_topics(with_topics, [reference, TopicReference("b")])
    assert [result.error for result in results] == [error, ErrorCode.NONE]
    assert results[0].name == reference.name
    assert results[0].topic_id == reference.topic_id
    assert list(image.topics) == ["a"]
    assert delete_topics(with_topics, [reference])[0] is with_topics


def test_a_topic_that_is_named_twice_even_by_name_and_id_is_not_deleted(with_topics: ClusterImage) -> None:
    by_name, by_id = TopicReference("a"), TopicReference(None, with_topics.topics["a"].topic_id)
    for references in ([by_name, by_name], [by_name, by_id]):
        image, results = delete_topics(with_topics, references)
        assert image is with_topics
        assert {result.error for result in results} == {ErrorCode.INVALID_REQUEST}
        assert len(results) == len(set(references))


def test_a_deleted_topics_name_can_be_used_again_with_a_new_id(with_topics: ClusterImage) -> None:
    old = with_topics.topics["a"].topic_id
    image, _ = delete_topics(with_topics, [TopicReference("a")])
    image, _ = create(image, NewTopic("a", 1, 1), rng=random.Random(8))
    assert image.topics["a"].topic_id != old
    assert image.topic_by_id(old) is None
