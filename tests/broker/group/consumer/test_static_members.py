"""Static members (KIP-345): they keep their partitions when they come back soon, with another member id."""

from __future__ import annotations

import pytest

from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness


@pytest.fixture
def broker() -> ConsumerHarness:
    return ConsumerHarness()


def static(broker: ConsumerHarness, member_id: str, instance_id: str = "i") -> Consumer:
    return Consumer(broker, member_id, instance_id=instance_id)


def test_a_member_that_comes_back_takes_its_place_without_a_new_epoch(broker: ConsumerHarness) -> None:
    one, two = static(broker, "one"), Consumer(broker, "two")
    broker.settle(one, two)
    owned, epoch = one.partitions, broker.group().epoch
    one.leave(-2)
    again = static(broker, "again")
    broker.settle(again, two)
    assert again.partitions == owned
    assert broker.group().epoch == epoch
    assert sorted(broker.group().members) == ["again", "two"]


def test_a_member_may_come_back_with_its_old_id(broker: ConsumerHarness) -> None:
    one = static(broker, "one")
    broker.settle(one)
    one.leave(-2)
    broker.settle(one)
    assert (one.epoch, len(one.partitions)) == (1, 6)


def test_a_member_that_stays_away_is_removed_after_its_session(broker: ConsumerHarness) -> None:
    one, two = static(broker, "one"), Consumer(broker, "two")
    broker.settle(one, two)
    one.leave(-2)
    broker.advance_ms(40_000)
    two.beat()
    assert len(two.partitions) == 3
    broker.advance_ms(5_001)
    broker.settle(two)
    assert len(two.partitions) == 6
    assert not broker.group().static_members


def test_a_second_member_of_one_name_is_refused_while_the_first_lives(broker: ConsumerHarness) -> None:
    broker.settle(static(broker, "one"))
    assert broker.refusal(**static(broker, "two").request()) == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_member_whose_place_was_taken_is_fenced(broker: ConsumerHarness) -> None:
    one, again = static(broker, "one"), static(broker, "again")
    broker.settle(one)
    one.leave(-2)
    broker.settle(again)
    beat = {"member_id": "one", "instance_id": "i"}
    for epoch in (1, -1, -2):
        assert broker.refusal(**beat, member_epoch=epoch) == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_an_unknown_name_is_told_so(broker: ConsumerHarness, epoch: int) -> None:
    broker.settle(static(broker, "one"))
    fields = {"member_id": "one", "instance_id": "other", "member_epoch": epoch}
    assert broker.refusal(**fields) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_for_good_gives_its_partitions_to_others(broker: ConsumerHarness) -> None:
    one, two = static(broker, "one"), Consumer(broker, "two")
    broker.settle(one, two)
    one.leave()
    broker.settle(two)
    assert len(two.partitions) == 6


def test_a_member_that_is_away_is_known_after_a_load(broker: ConsumerHarness) -> None:
    one = static(broker, "one")
    broker.settle(one)
    one.leave(-2)
    broker.elect_again()
    again = static(broker, "again")
    broker.settle(again)
    assert len(again.partitions) == 6
