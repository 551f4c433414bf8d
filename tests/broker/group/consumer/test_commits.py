"""Which commits of offsets a consumer group accepts (KIP-848)."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness


@pytest.fixture
def broker() -> ConsumerHarness:
    """Member one is in epoch 1."""
    made = ConsumerHarness()
    made.settle(Consumer(made, "one"))
    return made


def refusal(broker: ConsumerHarness, member_id: str, epoch: int) -> ErrorCode:
    with pytest.raises(CoordinatorError) as refused:
        broker.group().check_txn_commit(member_id, None, epoch)
    return refused.value.error_code


def test_kip_447_a_transaction_commits_without_a_membership_or_in_the_members_epoch(broker: ConsumerHarness) -> None:
    broker.group().check_txn_commit("", None, -1)
    broker.group().check_txn_commit("one", None, broker.group().members["one"].current.epoch)


def test_kip_447_another_epoch_is_stale_in_a_transaction(broker: ConsumerHarness) -> None:
    assert refusal(broker, "one", 99) == ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(broker, "one", -1) == ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(broker, "two", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_kip_447_a_static_member_that_is_away_commits_nothing() -> None:
    broker = ConsumerHarness()
    one = Consumer(broker, "one", instance_id="i")
    broker.settle(one)
    broker.ask(member_id="one", member_epoch=-2, instance_id="i")
    assert refusal(broker, "one", -2) == ErrorCode.STALE_MEMBER_EPOCH


def stale(broker: ConsumerHarness, epoch: int) -> list[ErrorCode]:
    """The refusals of a commit and of a fetch of offsets in this epoch."""
    group = broker.group()
    codes = []
    for check in (lambda: group.check_commit("one", None, epoch, 9), lambda: group.check_fetch("one", epoch)):
        with pytest.raises(CoordinatorError) as refused:
            check()
        codes.append(refused.value.error_code)
    return codes


def test_kip_848_a_commit_in_another_epoch_is_stale_be_it_older_or_newer(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    one.epoch = broker.group().members["one"].current.epoch
    broker.settle(two)
    for _ in range(5):
        one.beat()
        two.beat()
    epoch = broker.group().members["one"].current.epoch
    assert epoch > 1
    broker.group().check_commit("one", None, epoch, 9)
    broker.group().check_fetch("one", epoch)
    for other in (epoch - 1, epoch + 1, 0):
        assert stale(broker, other) == [ErrorCode.STALE_MEMBER_EPOCH] * 2
