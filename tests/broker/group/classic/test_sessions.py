"""Sessions: which requests are signs of life, and what becomes of members that give none."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.classic.harness import OK, REBALANCE_MS, SESSION_MS, Clients

NEW_MEMBER_MS = 300_000

# --- wrong heartbeats ---


def test_a_heartbeat_in_an_unknown_group_is_an_unknown_member(clients: Clients) -> None:
    assert clients.beat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_of_an_unknown_member_is_refused(clients: Clients) -> None:
    clients.stable(1)
    assert clients.beat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_a_heartbeat_of_another_generation_is_refused_and_is_no_sign_of_life(clients: Clients, generation: int) -> None:
    (first,) = clients.stable(1)
    clients.advance_ms(SESSION_MS - 1)
    assert clients.beat(first, generation) == ErrorCode.ILLEGAL_GENERATION
    clients.advance_ms(2)
    assert clients.state == "Empty"


def test_an_empty_group_id_is_refused(clients: Clients) -> None:
    assert clients.beat("x", 1, group_id="") == ErrorCode.INVALID_GROUP_ID


def test_a_heartbeat_in_a_group_that_is_empty_again_is_an_unknown_member(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.leave(first)
    assert clients.beat(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID


# --- signs of life ---


def test_kafka_7196_a_heartbeat_gives_the_whole_session_again(clients: Clients) -> None:
    (first,) = clients.stable(1)
    for _ in range(10):
        clients.advance_ms(SESSION_MS - 1)
        assert clients.beat(first, 1) == OK
    clients.advance_ms(SESSION_MS + 1)
    assert clients.beat(first, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_kafka_10134_heartbeats_while_the_group_rebalances_ask_to_join_and_keep_the_member(clients: Clients) -> None:
    first, second = clients.stable(2)
    clients.join(first)
    for _ in range(4):
        clients.advance_ms(SESSION_MS - 1)
        assert clients.beat(second, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert second in clients.group.members


def test_heartbeats_before_the_assignment_are_no_error_and_keep_the_member(clients: Clients) -> None:
    joined = clients.join()
    for _ in range(3):
        clients.advance_ms(SESSION_MS - 1)
        assert clients.beat(joined.member_id, 1) == OK


def test_a_parked_join_counts_as_a_sign_of_life(clients: Clients) -> None:
    first, second = clients.stable(2)
    waiting = clients.join(first)
    clients.stay_alive([second], 3 * SESSION_MS)
    assert waiting.is_parked
    assert clients.join(second).error == OK
    assert waiting.listed == [first, second]


def test_kafka_8896_a_session_begins_anew_when_the_join_is_answered(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    clients.advance_ms(SESSION_MS - 1)
    clients.join(first)
    clients.advance_ms(SESSION_MS - 1)
    assert clients.beat(first, 2) == clients.beat(second.member_id, 2) == OK


def test_a_commit_is_a_sign_of_life(clients: Clients) -> None:
    (first,) = clients.stable(1)
    for _ in range(3):
        clients.advance_ms(SESSION_MS - 1)
        clients.group.check_commit(first, None, 1, 9)
    assert clients.state == "Stable"


# --- new members ---


def test_kafka_7610_a_new_members_parked_join_expires_after_five_minutes(clients: Clients) -> None:
    (first,) = clients.stable(1, rebalance_ms=2 * NEW_MEMBER_MS)
    second = clients.join(rebalance_ms=2 * NEW_MEMBER_MS)
    clients.stay_alive([first], NEW_MEMBER_MS - 100)
    assert second.is_parked
    clients.stay_alive([first], 200)
    assert second.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert clients.join(first, rebalance_ms=2 * NEW_MEMBER_MS).listed == [first]


def test_kafka_9752_a_new_member_has_its_own_session_once_its_rebalance_is_complete(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    clients.assign(clients.join(first))
    clients.stay_alive([first], SESSION_MS + 1)
    assert second.member_id not in clients.group.members
    assert clients.state == "PreparingRebalance"


def test_kafka_9232_a_new_member_that_joins_again_in_the_same_rebalance_is_still_new(clients: Clients) -> None:
    (first,) = clients.stable(1, rebalance_ms=2 * NEW_MEMBER_MS)
    told = clients.join(version=4)
    clients.join(told.member_id, version=4, rebalance_ms=2 * NEW_MEMBER_MS)
    waiting = clients.join(told.member_id, version=4, rebalance_ms=2 * NEW_MEMBER_MS)
    clients.stay_alive([first], SESSION_MS * 3)
    assert waiting.is_parked
    clients.stay_alive([first], NEW_MEMBER_MS)
    assert waiting.error == ErrorCode.UNKNOWN_MEMBER_ID


# --- expiry ---


def test_a_session_that_ends_while_the_group_rebalances_completes_the_rebalance(clients: Clients) -> None:
    first, second = clients.stable(2)
    waiting = clients.join(first)
    clients.advance_ms(SESSION_MS + 1)
    assert waiting.listed == [first]
    assert clients.beat(second, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_that_ends_before_the_assignment_begins_the_next_rebalance(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    clients.join(first)
    waiting = clients.sync(second.member_id, 2)
    clients.advance_ms(SESSION_MS + 1)
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert clients.join(second.member_id).listed == [second.member_id]


def test_the_leadership_passes_on_when_the_leader_is_gone(clients: Clients) -> None:
    first, second = clients.stable(2)
    clients.stay_alive([second], SESSION_MS + 1)
    assert first not in clients.group.members
    assert clients.join(second).response.leader == second


def test_kafka_6042_sessions_of_two_groups_end_at_once_and_each_has_its_own_rebalance(clients: Clients) -> None:
    for group_id in ("one", "two"):
        joined = clients.join(group_id=group_id)
        clients.sync(joined.member_id, 1, {}, group_id=group_id)
        clients.join(group_id=group_id)
    waiting = [clients.join(group_id=group_id, version=3) for group_id in ("one", "two")]
    clients.advance_ms(SESSION_MS + 1)
    assert [joined.generation for joined in waiting] == [2, 2]


def test_no_session_is_left_when_all_members_are_gone(clients: Clients) -> None:
    clients.stable(3)
    clients.join(version=4)
    clients.advance_ms(SESSION_MS + 1)
    clients.advance_ms(REBALANCE_MS + 1)
    assert clients.state == "Empty"
    assert clients.heartbeat_purgatory.num_delayed == clients.rebalance_purgatory.num_delayed == 0


# --- commits ---


def refusal(clients: Clients, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
    try:
        clients.group.check_commit(member_id, instance_id, generation, 9)
    except CoordinatorError as error:
        return error.error_code
    return OK


def test_commits_are_checked_like_any_request_of_a_member(clients: Clients) -> None:
    (first,) = clients.stable(1)
    assert refusal(clients, first, 1) == OK
    assert refusal(clients, first, 2) == ErrorCode.ILLEGAL_GENERATION
    assert refusal(clients, "stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(clients, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(clients, first, -1) == ErrorCode.ILLEGAL_GENERATION


def test_commits_are_refused_before_the_assignment_and_accepted_while_the_members_join_again(
    clients: Clients,
) -> None:
    first = clients.join().member_id
    assert refusal(clients, first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    clients.sync(first, 1, {})
    clients.join()
    assert clients.state == "PreparingRebalance"
    assert refusal(clients, first, 1) == OK


def test_commits_of_a_replaced_static_member_are_fenced(clients: Clients) -> None:
    joined = clients.join(instance_id="one")
    clients.assign(joined)
    clients.join(instance_id="one")
    assert refusal(clients, joined.member_id, 1, "one") == ErrorCode.FENCED_INSTANCE_ID


def test_a_client_without_a_member_may_commit_while_the_group_is_empty(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.leave(first)
    assert refusal(clients, "", -1) == OK
    assert refusal(clients, first, 1) == ErrorCode.UNKNOWN_MEMBER_ID
