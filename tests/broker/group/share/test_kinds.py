"""Share groups beside classic and consumer groups, and offsets: each keeps its kind."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.modern.modern_groups import HeartbeatClient
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from purgatorio.protocol.messages.leave_group import MemberIdentity
from tests.broker.group.classic.harness import context
from tests.broker.group.share.harness import ShareHarness

OFFSET = CommittedOffset(5, 0, "", 0)


@pytest.fixture
def broker() -> ShareHarness:
    return ShareHarness()


def consumer_joins(broker: ShareHarness, member_epoch: int = 0) -> list[Any]:
    answers: list[Any] = []
    request = ConsumerGroupHeartbeatRequest(
        group_id="app",
        member_id="c",
        member_epoch=member_epoch,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    broker.groups.consumer.heartbeat(request, HeartbeatClient("c", "/h", 1, answers.append, broker.left.append))
    return answers


def classic_joins(broker: ShareHarness) -> list[Any]:
    answers: list[Any] = []
    request = JoinGroupRequest(
        group_id="app",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    broker.groups.classic.join(context("c", 3), request, answers.append)
    return answers


def refused(action: Any, *arguments: Any, **named: Any) -> ErrorCode:
    with pytest.raises(CoordinatorError) as error:
        action(*arguments, **named)
    return error.value.error_code


def joins_share(broker: ShareHarness) -> ErrorCode:
    return broker.refusal(member_id="a", member_epoch=0, subscribed_topic_names=["orders"])


def test_a_classic_group_is_no_share_group(broker: ShareHarness) -> None:
    (joined,) = classic_joins(broker)
    assert joins_share(broker) == ErrorCode.GROUP_ID_NOT_FOUND
    broker.groups.classic.leave("app", [MemberIdentity(member_id=joined.member_id)])
    assert joins_share(broker) == ErrorCode.GROUP_ID_NOT_FOUND, "nor when it is empty"


def test_a_consumer_group_is_no_share_group(broker: ShareHarness) -> None:
    consumer_joins(broker)
    assert joins_share(broker) == ErrorCode.GROUP_ID_NOT_FOUND
    consumer_joins(broker, -1)
    assert joins_share(broker) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_offsets_alone_is_no_share_group(broker: ShareHarness) -> None:
    errors: list[ErrorCode] = []
    broker.groups.offsets.commit("app", [("orders", 0, OFFSET)], errors.append, version=9)
    assert errors == [ErrorCode.NONE]
    assert joins_share(broker) == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_share_group_stays_one_also_when_it_is_empty(broker: ShareHarness, is_empty: bool) -> None:
    broker.join("a")
    if is_empty:
        broker.ask(member_id="a", member_epoch=-1)
    group = broker.group()
    assert refused(consumer_joins, broker) == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(classic_joins, broker) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat = HeartbeatRequest(group_id="app", generation_id=1, member_id="c")
    assert refused(broker.groups.classic.heartbeat, beat) == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.groups.classic.leave("app", [MemberIdentity(member_id="c")]) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert broker.group() is group


def test_a_share_group_takes_no_offsets(broker: ShareHarness) -> None:
    broker.join("a")
    for member_id, epoch in (("", -1), ("a", 2)):
        commit: dict[str, Any] = {"member_id": member_id, "generation_or_epoch": epoch, "version": 9}
        code = refused(broker.groups.offsets.commit, "app", [("orders", 0, OFFSET)], lambda code: None, **commit)
        assert code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(broker.group().check_txn_commit, "", None, -1) == ErrorCode.GROUP_ID_NOT_FOUND
    delete = broker.groups.cleaner.delete_offsets
    assert refused(delete, "app", [("orders", 0)], lambda codes: None) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_share_group_has_no_offsets_to_read_which_is_no_error(broker: ShareHarness) -> None:
    broker.join("a")
    assert broker.groups.offsets.offsets_of("app", "a", 2) == {}
    assert broker.groups.offsets.offsets_of("app") == {}


def test_an_empty_share_group_does_not_expire(broker: ShareHarness) -> None:
    broker.join("a")
    broker.ask(member_id="a", member_epoch=-1)
    for _ in broker.groups.cleaner.expiry_steps():
        pass
    assert broker.group().is_empty
