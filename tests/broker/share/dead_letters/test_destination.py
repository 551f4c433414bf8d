"""The rules of KIP-1191 for a group's dead-letter topic."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import TopicResult
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.share.dead_letters.destination import (
    DeadLetterRules,
    Destination,
    MissingTopic,
    NoDestination,
    destination,
    why_not_created,
)
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import topic

SOURCE = TopicPartition("orders", 5)
ALLOWED = topic("dlq.jobs", leader=2, partitions=3, errors_deadletterqueue_group_enable="true", max_message_bytes="700")


def rules(**fields: Any) -> DeadLetterRules:
    known: dict[str, Any] = {"is_on": True, "prefix": "dlq.", "creates_topics": False}
    return DeadLetterRules(**{**known, **fields}, log_config=lambda each: LogConfig.from_strings(each.configs))


def image(*topics: Any) -> ClusterImage:
    return ClusterImage(1, "test", 1, {}, {each.name: each for each in topics})


def test_the_partition_is_that_of_the_record_modulo_the_topics() -> None:
    found = destination(image(ALLOWED), rules(), "dlq.jobs", SOURCE)
    assert found == Destination(TopicPartition("dlq.jobs", 2), 2, 700)


def test_any_name_is_allowed_without_a_prefix() -> None:
    named = topic("failed", errors_deadletterqueue_group_enable="true")
    assert isinstance(destination(image(named), rules(prefix=""), "failed", SOURCE), Destination)


def test_a_topic_that_does_not_exist_is_created_if_brokers_may() -> None:
    assert destination(image(), rules(creates_topics=True), "dlq.jobs", SOURCE) == MissingTopic("dlq.jobs")


@pytest.mark.parametrize(
    ("name", "topics", "fields", "why"),
    [
        ("", [ALLOWED], {}, "the group has no errors.deadletterqueue.topic.name"),
        ("dlq.jobs", [ALLOWED], {"is_on": False}, "share.version is below 2, which has no dead letters"),
        (
            "failed",
            [],
            {"creates_topics": True},
            "failed does not begin with dlq., as errors.deadletterqueue.topic.name.prefix wants",
        ),
        (
            "dlq.jobs",
            [],
            {},
            "dlq.jobs does not exist, and errors.deadletterqueue.auto.create.topics.enable is false",
        ),
        (
            "dlq.jobs",
            [topic("dlq.jobs")],
            {},
            "dlq.jobs does not allow it: its errors.deadletterqueue.group.enable is false",
        ),
    ],
)
def test_each_rule_has_its_sentence(name: str, topics: list[Any], fields: dict[str, Any], why: str) -> None:
    assert destination(image(*topics), rules(**fields), name, SOURCE) == NoDestination(why)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (TopicResult("t"), None),
        (TopicResult("t", error=ErrorCode.TOPIC_ALREADY_EXISTS, message="It exists."), None),
        (TopicResult("t", error=ErrorCode.POLICY_VIOLATION, message="Too many."), "Too many."),
        (TopicResult("t", error=ErrorCode.POLICY_VIOLATION), "POLICY_VIOLATION"),
    ],
)
def test_a_topic_that_exists_already_is_as_good_as_created(result: TopicResult, why: str | None) -> None:
    assert why_not_created([result]) == why
