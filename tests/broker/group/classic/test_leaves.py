"""Leaving: each member has its own error code, and those that stay rebalance once."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.classic.harness import OK, Clients

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def test_in_an_unknown_group_all_are_unknown(clients: Clients) -> None:
    assert clients.leave("a", "b") == [UNKNOWN, UNKNOWN]


def test_an_empty_group_id_is_refused(clients: Clients) -> None:
    with pytest.raises(CoordinatorError) as refused:
        clients.leave("a", group_id="")
    assert refused.value.error_code == ErrorCode.INVALID_GROUP_ID


def test_several_members_leave_together_and_the_others_rebalance_once(clients: Clients) -> None:
    first, second, third = clients.stable(3)
    assert clients.leave(second, "stranger", third, third) == [OK, UNKNOWN, OK, UNKNOWN]
    assert clients.join(first).listed == [first]
    assert clients.group.generation == 3


def test_nobody_rebalances_for_a_member_that_was_none(clients: Clients) -> None:
    clients.stable(2)
    clients.leave("stranger")
    assert clients.state == "Stable"


def test_the_parked_requests_of_a_member_that_leaves_are_answered(clients: Clients) -> None:
    first, second = clients.stable(2)
    joining = clients.join(second, protocols=(("range", b"more"),))
    clients.leave(second)
    assert joining.error == UNKNOWN
    leader = clients.join(first)
    third = clients.join()
    clients.join(leader.member_id)
    syncing = clients.sync(third.member_id, clients.group.generation)
    clients.leave(third.member_id)
    assert syncing.error == UNKNOWN


def test_a_member_that_leaves_during_a_rebalance_completes_it(clients: Clients) -> None:
    first, second = clients.stable(2)
    waiting = clients.join(first)
    clients.leave(second)
    assert waiting.listed == [first]


def test_an_id_that_was_given_out_is_given_back(clients: Clients) -> None:
    (first,) = clients.stable(1)
    told = clients.join(version=4)
    newcomer = clients.join(clients.join(version=4).member_id, version=4)
    waiting = clients.join(first)
    assert clients.leave(told.member_id) == [OK]
    assert waiting.generation == newcomer.generation == 2
    assert clients.leave(told.member_id) == [UNKNOWN]


def test_kafka_13636_a_member_that_leaves_and_comes_again_is_a_new_one(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.leave(first)
    joined = clients.join()
    assert joined.member_id != first
    assert joined.generation == 3
