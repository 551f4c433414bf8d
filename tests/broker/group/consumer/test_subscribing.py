"""Subscriptions by regular expression, and when a group's partitions are shared anew."""

from __future__ import annotations

import pytest

from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness
from tests.broker.group.harness import PARTITION


@pytest.fixture
def broker() -> ConsumerHarness:
    return ConsumerHarness()


def by_expression(broker: ConsumerHarness, member_id: str, text: str, topics: tuple[str, ...] = ()) -> Consumer:
    return Consumer(broker, member_id, topics, subscribed_topic_regex=text)


def test_a_member_consumes_the_topics_that_its_expression_matches(broker: ConsumerHarness) -> None:
    one, two = by_expression(broker, "one", "b.*"), by_expression(broker, "two", "o.*", ("bills",))
    broker.settle(one, two)
    assert (one.partitions, len(two.partitions)) == (["bills-0", "bills-1"], 6)


def test_an_expression_matches_internal_topics_too(broker: ConsumerHarness) -> None:
    """As in Kafka, whose brokers leave out none (franz-go relies on it)."""
    one = by_expression(broker, "one", ".*_offsets")
    broker.settle(one)
    assert one.partitions == ["__consumer_offse-0"], "topic ids are the first 16 letters here"


def test_an_empty_expression_is_none(broker: ConsumerHarness) -> None:
    one = by_expression(broker, "one", "", ("bills",))
    broker.settle(one)
    assert one.partitions == ["bills-0", "bills-1"]
    assert broker.group().members["one"].subscription.subscribed_topic_regex is None


def test_topics_that_come_and_go_are_followed(broker: ConsumerHarness) -> None:
    one = by_expression(broker, "one", "b.*")
    broker.settle(one)
    broker.create(orders=6, bills=2, books=1)
    broker.settle(one)
    assert (one.epoch, one.partitions) == (2, ["bills-0", "bills-1", "books-0"])
    broker.create(orders=6, books=1)
    broker.settle(one)
    assert (one.epoch, one.partitions) == (3, ["books-0"])


def test_topics_that_do_not_match_begin_no_epoch(broker: ConsumerHarness) -> None:
    one = by_expression(broker, "one", "b.*")
    broker.settle(one)
    end = broker.partition(PARTITION).log.log_end_offset
    broker.create(bills=2, others=1)
    broker.settle(one)
    assert one.epoch == 1
    assert broker.partition(PARTITION).log.log_end_offset == end


def test_topics_that_came_while_the_group_had_no_coordinator_are_found(broker: ConsumerHarness) -> None:
    one = by_expression(broker, "one", "b.*")
    broker.settle(one)
    broker.groups.consumer.image_changed = lambda image: None  # another broker coordinates meanwhile
    broker.create(orders=6, bills=2, books=1)
    broker.elect_again()
    broker.settle(one)
    assert one.partitions == ["bills-0", "bills-1", "books-0"]


def test_a_member_changes_its_expression(broker: ConsumerHarness) -> None:
    one = by_expression(broker, "one", "b.*")
    broker.settle(one)
    one.hear(broker.ask(member_id="one", member_epoch=one.epoch, subscribed_topic_regex="o.*"))
    broker.settle(one)
    assert len(one.partitions) == 6
    assert list(broker.group().expressions) == ["o.*"]


def test_an_expression_goes_with_its_last_member(broker: ConsumerHarness) -> None:
    one, two = by_expression(broker, "one", "b.*"), by_expression(broker, "two", "b.*")
    broker.settle(one, two)
    one.leave()
    assert list(broker.group().expressions) == ["b.*"]
    two.leave()
    assert not broker.group().expressions
    broker.elect_again()
    assert not broker.group().expressions


@pytest.mark.parametrize("text", ["(", "(?=a)", "a" * 1_001])
def test_a_wrong_expression_is_refused(broker: ConsumerHarness, text: str) -> None:
    refused = broker.refusal(**by_expression(broker, "one", text).request())
    assert refused == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_large_group_is_not_assigned_anew_for_each_member(broker: ConsumerHarness) -> None:
    crowd = [Consumer(broker, f"m{nth:03}", ["bills"]) for nth in range(300)]
    for consumer in crowd:
        consumer.beat()
    group = broker.group()
    assert (group.epoch, group.target_epoch) == (300, 101)
    assert group.state_name == "Assigning"
    broker.advance_ms(300)
    broker.settle(*crowd)
    assert (group.target_epoch, group.state_name) == (300, "Stable")
