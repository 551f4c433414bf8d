"""Syncs and leaves of classic groups: what is answered once it is committed, and what is refused."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.classic.harness import OK, REBALANCE_MS, SESSION_MS, Clients


def test_a_sync_in_an_unknown_group_is_an_unknown_member(clients: Clients) -> None:
    assert clients.sync("stranger", 1).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_in_an_empty_group_is_an_unknown_member(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.leave(first)
    assert clients.sync(first, 2).error == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_a_sync_of_another_generation_is_refused(clients: Clients, generation: int) -> None:
    joined = clients.join()
    assert clients.sync(joined.member_id, generation).error == ErrorCode.ILLEGAL_GENERATION


def test_a_sync_while_the_members_have_to_join_again_tells_to_do_so(clients: Clients) -> None:
    first, second = clients.stable(2)
    clients.join(first)
    assert clients.sync(second, 2).error == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "error"),
    [("consumer", "range", 0), (None, None, 0), ("connect", "range", 23), ("consumer", "roundrobin", 23)],
)
def test_kip_559_a_sync_that_takes_the_group_for_another_is_refused(
    clients: Clients, protocol_type: str | None, protocol_name: str | None, error: int
) -> None:
    joined = clients.join()
    synced = clients.sync(joined.member_id, 1, {}, protocol_type=protocol_type, protocol_name=protocol_name)
    assert synced.error == error


def test_an_empty_group_id_is_refused(clients: Clients) -> None:
    assert clients.sync("x", 1, group_id="").error == ErrorCode.INVALID_GROUP_ID


# --- the assignment ---


def test_the_answer_names_type_and_protocol(clients: Clients) -> None:
    joined = clients.join()
    response = clients.assign(joined).only
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")


def test_a_member_that_the_leader_left_out_gets_nothing_to_do(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    clients.join(first)
    clients.sync(first, 2, {first: b"all"})
    assert clients.sync(second.member_id, 2).assignment == b""


def test_in_a_stable_group_each_sync_gets_the_present_assignment(clients: Clients) -> None:
    _, second = clients.stable(2)
    assert clients.sync(second, 2).assignment == second.encode()


def test_the_assignment_is_answered_when_it_is_committed(replicated: Clients) -> None:
    synced = replicated.assign(replicated.join())
    assert synced.is_parked
    assert replicated.state == "CompletingRebalance"
    replicated.replicate()
    assert synced.error == OK
    assert replicated.state == "Stable"


def test_an_assignment_that_cannot_be_replicated_is_an_error_to_all_who_wait_and_they_rebalance(
    replicated: Clients,
) -> None:
    (first,) = [replicated.join().member_id]
    second = replicated.join()
    replicated.replicate()
    leader = replicated.join(first)
    waiting = replicated.sync(second.member_id, leader.generation)
    synced = replicated.assign(leader)
    for _ in range(3):
        replicated.advance_ms(2_000)
    assert synced.error == waiting.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert replicated.state == "PreparingRebalance"


def test_an_assignment_that_is_committed_after_the_next_rebalance_has_begun_changes_nothing(
    replicated: Clients,
) -> None:
    leader = replicated.join()
    synced = replicated.assign(leader)
    replicated.join()
    assert synced.error == ErrorCode.REBALANCE_IN_PROGRESS
    replicated.replicate()
    assert replicated.state == "PreparingRebalance"
    assert replicated.group.members[leader.member_id].assignment == b""


def test_an_assignment_of_the_generation_before_that_is_committed_late_is_not_that_of_the_next(
    replicated: Clients,
) -> None:
    leader = replicated.join()
    replicated.assign(leader)
    second = replicated.join()
    again = replicated.join(leader.member_id)
    assert (again.generation, replicated.state) == (2, "CompletingRebalance")
    waiting = replicated.sync(second.member_id, 2)
    replicated.replicate()  # what generation 1 has written
    assert replicated.state == "CompletingRebalance"
    assert waiting.is_parked
    synced = replicated.assign(again)
    replicated.replicate()
    assert (synced.assignment, waiting.assignment) == (leader.member_id.encode(), second.member_id.encode())


def test_a_sync_that_is_sent_again_answers_the_one_before(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    leader = clients.join(first)
    lost = clients.sync(second.member_id, 2)
    again = clients.sync(second.member_id, 2)
    assert lost.error == ErrorCode.REBALANCE_IN_PROGRESS
    clients.assign(leader)
    assert again.assignment == second.member_id.encode()


# --- members that do not sync ---


def test_kafka_12890_a_leader_that_never_syncs_is_removed_after_the_rebalance_timeout(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    clients.join(first)
    waiting = clients.sync(second.member_id, 2)
    clients.stay_alive([first], REBALANCE_MS + 1, generation=2)
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(clients.group.members) == [second.member_id]
    assert clients.join(second.member_id).listed == [second.member_id]


def test_kafka_12890_a_follower_that_never_syncs_is_removed_though_the_group_is_stable(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    clients.assign(clients.join(first))
    assert clients.state == "Stable"
    clients.stay_alive([first, second.member_id], REBALANCE_MS + 1)
    assert list(clients.group.members) == [first]
    assert clients.state == "PreparingRebalance"


def test_when_all_have_synced_nothing_waits_for_syncs_any_more(clients: Clients) -> None:
    clients.stable(3)
    assert clients.rebalance_purgatory.num_delayed == 0


def test_the_wait_for_syncs_of_a_generation_ends_with_the_generation(clients: Clients) -> None:
    first, _ = clients.stable(2)
    clients.join(first)
    assert [str(key) for each in clients.rebalance_purgatory.operations() for key in each.keys] == ["join of billing"]


def test_the_wait_says_whose_sync_is_missing(clients: Clients) -> None:
    first = clients.join(client_id="app-1")
    clients.join(client_id="app-2")
    leader = clients.join(first.member_id, client_id="app-1")
    (operation,) = clients.rebalance_purgatory.operations()
    assert in_words(operation.causes) == "generation 2 of billing waits for the assignment of leader app-1"
    clients.assign(leader)
    (operation,) = clients.rebalance_purgatory.operations()
    assert in_words(operation.causes) == "generation 2 of billing waits for member app-2"


def test_a_parked_sync_counts_as_a_sign_of_life(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    leader = clients.join(first)
    waiting = clients.sync(second.member_id, 2)
    clients.stay_alive([first], 3 * SESSION_MS)
    clients.assign(leader)
    assert waiting.error == OK
    clients.stay_alive([first], SESSION_MS - 1)
    assert second.member_id in clients.group.members
    clients.stay_alive([first], 2)
    assert second.member_id not in clients.group.members


UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def test_in_an_unknown_group_all_are_unknown(clients: Clients) -> None:
    assert clients.leave("a", "b") == [UNKNOWN, UNKNOWN]


def test_a_leave_with_an_empty_group_id_is_refused(clients: Clients) -> None:
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
