"""How classic groups rebalance: who joins, who is waited for, and what members are told meanwhile."""

from __future__ import annotations

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.group.classic.rebalances import COST_OF_ANSWER
from purgatorio.broker.time.long_work import SLICE
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.classic.harness import OK, REBALANCE_MS, SESSION_MS, Clients

AT_ONCE = SLICE // COST_OF_ANSWER


def test_the_first_member_is_leader_of_generation_1_at_once(clients: Clients) -> None:
    joined = clients.join()
    assert (joined.error, joined.generation, joined.response.protocol_name) == (OK, 1, "range")
    assert joined.response.leader == joined.member_id
    assert joined.listed == [joined.member_id]
    assert clients.state == "CompletingRebalance"


def test_the_leaders_sync_makes_the_group_stable(clients: Clients) -> None:
    joined = clients.join()
    assert clients.assign(joined).assignment == joined.member_id.encode()
    assert clients.state == "Stable"


def test_a_second_member_waits_for_the_first_to_join_again_and_the_last_join_answers_both(clients: Clients) -> None:
    (first,) = clients.stable(1)
    joining = clients.join()
    assert joining.is_parked
    assert clients.beat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = clients.join(first)
    assert (again.generation, joining.generation) == (2, 2)
    assert again.listed == [first, joining.member_id]
    assert (joining.listed, joining.response.leader) == ([], first)


def test_a_followers_sync_waits_for_that_of_the_leader(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    leader = clients.join(first)
    waiting = clients.sync(second.member_id, 2)
    assert waiting.is_parked
    clients.assign(leader)
    assert waiting.assignment == second.member_id.encode()


def test_a_rebalance_goes_on_without_the_members_that_have_not_joined_in_time(clients: Clients) -> None:
    first, _second = clients.stable(2)
    third = clients.join()
    again = clients.join(first)
    clients.stay_alive([_second], REBALANCE_MS + 1)
    assert again.listed == [first, third.member_id]
    assert clients.state == "CompletingRebalance"


def test_a_member_whose_session_is_over_is_removed_and_the_others_rebalance(clients: Clients) -> None:
    first, second = clients.stable(2)
    clients.stay_alive([first], SESSION_MS + 1)
    assert clients.state == "PreparingRebalance"
    assert clients.beat(second, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert clients.join(first).listed == [first]


def test_a_member_that_leaves_is_removed_at_once(clients: Clients) -> None:
    first, second = clients.stable(2)
    assert clients.leave(second) == [OK]
    assert clients.beat(first, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert clients.join(first).listed == [first]


def test_the_group_is_empty_when_its_last_member_has_left(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.leave(first)
    assert (clients.state, clients.group.generation) == ("Empty", 2)
    assert clients.rebalance_purgatory.num_delayed == clients.heartbeat_purgatory.num_delayed == 0


def test_the_waiting_join_names_the_members_that_it_waits_for(clients: Clients) -> None:
    clients.join(client_id="app-1")
    ids = [clients.join(client_id=f"app-{nth}") for nth in (2, 5)]
    assert all(joined.is_parked for joined in ids)
    (parked,) = clients.rebalance_purgatory.operations()[-1:]
    assert in_words(parked.causes) == "rebalance of billing waits for member app-1"


def test_heartbeats_move_the_deadline_of_the_parked_session(clients: Clients) -> None:
    (first,) = clients.stable(1)
    (before,) = clients.heartbeat_purgatory.operations()
    clients.advance_ms(3_000)
    assert clients.beat(first, 1) == OK
    (after,) = clients.heartbeat_purgatory.operations()
    assert (after.id, after.deadline_ms) == (before.id, before.deadline_ms + 3_000)
    assert not [each for each in clients.finished if each.purgatory == "Heartbeat"]


def test_of_very_many_members_the_later_ones_are_answered_in_later_turns(clients: Clients) -> None:
    first = clients.join()
    joins = [clients.join() for _ in range(AT_ONCE + 10)]
    leader = clients.join(first.member_id)
    assert not leader.is_parked
    assert sum(joined.is_parked for joined in joins) == 11
    assert not clients.group_work.turn()
    assert {joined.generation for joined in joins} == {2}
    syncs = [clients.sync(joined.member_id, 2) for joined in joins]
    clients.assign(leader)
    assert sum(synced.is_parked for synced in syncs) == 11
    assert not clients.group_work.turn()
    assert all(synced.error == OK for synced in syncs)


def test_a_rebalance_timeout_of_0_leaves_members_the_time_to_answer(clients: Clients) -> None:
    joined = clients.join(rebalance_ms=0)
    assert clients.assign(joined).error == OK
    clients.join(instance_id="one", rebalance_ms=0)
    clients.join(joined.member_id, rebalance_ms=0)
    assert clients.group.generation == 2


def test_static_members_with_a_rebalance_timeout_of_0_do_not_keep_the_broker_busy(clients: Clients) -> None:
    first = clients.join(instance_id="one", rebalance_ms=0)
    clients.assign(first)
    newcomer = clients.join(rebalance_ms=0)
    clients.leave(newcomer.member_id if not newcomer.is_parked else next(reversed(clients.group.members)))
    clients.stay_alive([first.member_id], 4_000)
    assert clients.state == "PreparingRebalance"
    assert len([each for each in clients.finished if each.purgatory == "Rebalance"]) < 10


def test_the_end_of_a_rebalance_is_told_with_its_cause_and_the_member_that_was_last(clients: Clients) -> None:
    first = clients.join(client_id="app-1")
    clients.join(client_id="app-2")
    clients.join(first.member_id, client_id="app-1")
    (join,) = [each for each in clients.finished if each.purgatory == "Rebalance" and "join" in str(each.keys[0])]
    assert (join.outcome, join.cause, join.held_by, join.client) == ("completed", "join", ("app-1",), "app-2")


def test_a_rebalance_that_expires_is_told_with_the_members_that_it_waited_for(clients: Clients) -> None:
    first = clients.join(client_id="app-1")
    clients.join(client_id="app-2")
    clients.stay_alive([first.member_id], REBALANCE_MS + 1)
    (join,) = [each for each in clients.finished if each.purgatory == "Rebalance" and "join" in str(each.keys[0])]
    assert (join.outcome, join.held_by) == ("expired", ("app-1",))
    assert in_words(join.causes) == "rebalance of billing waits for member app-1"
