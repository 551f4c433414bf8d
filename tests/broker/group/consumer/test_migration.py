"""Groups go from one protocol to the other."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from purgatorio.protocol.messages.leave_group import MemberIdentity
from tests.broker.group.classic.harness import Joined, context
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness


@pytest.fixture
def broker() -> ConsumerHarness:
    return ConsumerHarness()


def join(broker: ConsumerHarness, member_id: str = "") -> JoinGroupResponse:
    """Join as a classic member, in one step, as old clients do."""
    request = JoinGroupRequest(
        group_id="app",
        member_id=member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = Joined()
    broker.groups.classic.join(context("classic", 3), request, answer)
    return answer.response


def leave(broker: ConsumerHarness, member_id: str) -> None:
    broker.groups.classic.leave("app", [MemberIdentity(member_id=member_id)])


def protocol(broker: ConsumerHarness) -> str:
    return broker.groups.coordinator.shard_of("app").groups["app"].type


def test_an_empty_classic_group_takes_the_new_protocol(broker: ConsumerHarness) -> None:
    leave(broker, join(broker).member_id)
    one = Consumer(broker, "one")
    broker.settle(one)
    assert (protocol(broker), len(one.partitions)) == ("consumer", 6)
    broker.elect_again()
    assert protocol(broker) == "consumer"


def test_an_empty_consumer_group_takes_the_classic_protocol(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    broker.settle(one)
    one.leave()
    joined = join(broker)
    assert (joined.error_code, protocol(broker)) == (ErrorCode.NONE, "classic")
    leave(broker, joined.member_id)
    broker.elect_again()
    assert protocol(broker) == "classic"


def test_a_group_goes_back_and_forth(broker: ConsumerHarness) -> None:
    for _ in range(3):
        one = Consumer(broker, "one")
        broker.settle(one)
        one.leave()
        leave(broker, join(broker).member_id)
    assert protocol(broker) == "classic"


def test_a_group_that_cannot_be_written_keeps_its_protocol(broker: ConsumerHarness) -> None:
    leave(broker, join(broker).member_id)
    broker.groups.coordinator.discard = lambda shard, group: False
    assert broker.refusal(**Consumer(broker, "one").request()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert protocol(broker) == "classic"


def test_a_member_that_is_unknown_does_not_change_the_protocol(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    broker.settle(one)
    one.leave()
    with pytest.raises(CoordinatorError):
        join(broker, "unknown")
    assert protocol(broker) == "consumer"
