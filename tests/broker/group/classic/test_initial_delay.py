"""The initial delay of an empty group (KIP-134): its first members make one rebalance together."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from tests.broker.group.classic.harness import Clients


@pytest.fixture
def clients() -> Clients:
    return Clients(initial_rebalance_delay_ms=3_000)


def test_all_members_that_come_within_the_delay_make_one_rebalance(clients: Clients) -> None:
    joins = [clients.join() for _ in range(3)]
    clients.advance_ms(3_001)
    assert all(joined.is_parked for joined in joins), "members came meanwhile: the delay goes on"
    clients.advance_ms(3_001)
    assert [joined.generation for joined in joins] == [1, 1, 1]
    assert len(joins[0].listed) == 3


def test_a_member_alone_waits_for_one_delay(clients: Clients) -> None:
    joined = clients.join()
    clients.advance_ms(2_999)
    assert joined.is_parked
    clients.advance_ms(2)
    assert joined.generation == 1


def test_each_member_that_comes_extends_the_delay_but_not_beyond_the_rebalance_timeout(clients: Clients) -> None:
    joins = [clients.join(rebalance_ms=7_000)]
    for passed_ms in range(0, 7_000, 100):
        assert joins[0].is_parked, f"after {passed_ms} ms"
        if passed_ms % 1_000 == 0:
            joins.append(clients.join(rebalance_ms=7_000))
        clients.advance_ms(100)
    assert len(joins[0].listed) == 8


def test_a_rebalance_timeout_shorter_than_the_delay_ends_it(clients: Clients) -> None:
    joined = clients.join(rebalance_ms=1_000)
    clients.advance_ms(1_001)
    assert joined.generation == 1


def test_the_delay_never_ends_early_though_all_members_have_joined(clients: Clients) -> None:
    told = clients.join(version=4)
    clients.join(told.member_id, version=4)
    again = clients.join(told.member_id, version=4)
    clients.advance_ms(100)
    assert again.is_parked
    assert clients.group.has_all_joined


def test_only_the_first_rebalance_is_delayed(clients: Clients) -> None:
    first = clients.join()
    clients.advance_ms(3_001)
    clients.assign(first)
    second = clients.join()
    assert clients.join(first.member_id).generation == second.generation == 2


def test_the_wait_says_what_it_is_and_how_many_have_come(clients: Clients) -> None:
    clients.join()
    clients.join()
    (operation,) = clients.rebalance_purgatory.operations()
    assert in_words(operation.causes) == "first rebalance of billing waits for more members; 2 joined so far"


def test_a_group_whose_members_leave_during_the_delay_is_empty_after_it(clients: Clients) -> None:
    told = clients.join(version=4)
    clients.join(told.member_id, version=4)
    clients.leave(told.member_id)
    clients.advance_ms(3_001)
    assert clients.state == "Empty"
