"""Static members (KIP-345): they come back without a rebalance, and fence the one that had their name."""

from __future__ import annotations

import pytest

from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.classic.harness import OK, REBALANCE_MS, SESSION_MS, Clients, Joined


def stable(clients: Clients, *instance_ids: str) -> dict[str, str]:
    """Make a stable group of static members; returns member ids by instance id, the leader's first."""
    ids = {instance_id: clients.join(instance_id=instance_id) for instance_id in instance_ids}
    leader_instance = instance_ids[0]
    leader = ids[leader_instance]
    if len(instance_ids) > 1:
        leader = clients.join(leader.member_id, instance_id=leader_instance)
    clients.assign(leader)
    made = {instance_id: joined.member_id for instance_id, joined in ids.items()}
    for instance_id, member_id in made.items():
        assert clients.sync(member_id, clients.group.generation, instance_id=instance_id).error == OK
    assert clients.state == "Stable"
    return made


def test_a_follower_that_is_restarted_gets_a_new_id_and_its_old_assignment_without_a_rebalance(
    clients: Clients,
) -> None:
    ids = stable(clients, "one", "two")
    back = clients.join(instance_id="two")
    assert (back.error, back.generation) == (OK, 2)
    assert back.member_id != ids["two"]
    assert (back.listed, back.response.leader) == ([], ids["one"])
    assert clients.sync(back.member_id, 2, instance_id="two").assignment == ids["two"].encode()
    assert clients.state == "Stable"


@pytest.mark.parametrize("instance_id", ["one", "two"])
def test_requests_with_the_replaced_id_are_fenced(clients: Clients, instance_id: str) -> None:
    ids = stable(clients, "one", "two")
    clients.join(instance_id=instance_id)
    old = ids[instance_id]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert clients.beat(old, 2, instance_id=instance_id) == fenced
    assert clients.sync(old, 2, instance_id=instance_id).error == fenced
    assert clients.join(old, instance_id=instance_id).error == fenced
    assert clients.leave(old, instance_id=instance_id) == [fenced]
    assert clients.beat(old, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_instance_with_a_member_id_is_an_unknown_member(clients: Clients) -> None:
    ids = stable(clients, "one")
    assert clients.beat(ids["one"], 1, instance_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID


def test_kip_814_a_leader_that_is_restarted_gets_the_members_and_skips_the_assignment(clients: Clients) -> None:
    stable(clients, "one", "two")
    back = clients.join(instance_id="one", version=9)
    assert back.response.skip_assignment
    assert back.response.leader == back.member_id
    assert len(back.listed) == 2
    assert clients.state == "Stable"


def test_before_version_9_a_leader_that_is_restarted_is_told_of_the_old_leader_so_that_it_does_not_assign(
    clients: Clients,
) -> None:
    ids = stable(clients, "one", "two")
    back = clients.join(instance_id="one", version=8)
    assert not back.response.skip_assignment
    assert (back.response.leader, back.listed) == (ids["one"], [])
    assert clients.group.leader_id == back.member_id


def test_kafka_10284_the_new_id_is_written_and_answered_when_it_is_committed(replicated: Clients) -> None:
    ids = stable_with_followers(replicated)
    back = replicated.join(instance_id="one")
    assert back.is_parked
    replicated.replicate()
    assert back.error == OK
    replicated.reload()
    assert list(replicated.group.members) == [back.member_id]
    assert replicated.group.members[back.member_id].assignment == ids.encode()


def test_kafka_10284_a_new_id_that_cannot_be_written_is_taken_back(replicated: Clients) -> None:
    old_id = stable_with_followers(replicated)
    back = replicated.join(instance_id="one", session_ms=20_000)
    replicated.advance_ms(5_001)
    assert back.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(replicated.group.members) == [old_id]
    assert replicated.group.members[old_id].session_timeout_ms == SESSION_MS
    assert replicated.beat(old_id, 1, instance_id="one") == OK


def stable_with_followers(clients: Clients) -> str:
    """Make a stable group of one static member, replicated."""
    joined = clients.join(instance_id="one")
    clients.assign(joined)
    clients.replicate()
    assert clients.state == "Stable"
    return joined.member_id


def test_kafka_14009_a_restarted_member_brings_its_timeouts(clients: Clients) -> None:
    stable(clients, "one")
    back = clients.join(instance_id="one", session_ms=30_000, rebalance_ms=90_000)
    member = clients.group.members[back.member_id]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (30_000, 90_000)
    clients.advance_ms(29_999)
    assert clients.beat(back.member_id, 1) == OK


def test_a_restarted_member_that_changes_the_choice_of_the_protocol_makes_the_group_rebalance(clients: Clients) -> None:
    both = (("range", b"topics"), ("roundrobin", b"topics"))
    first = clients.join(instance_id="one", protocols=both)
    clients.assign(first)
    clients.join(instance_id="one", protocols=both[::-1])
    assert (clients.group.generation, clients.group.protocol) == (2, "roundrobin")


def test_kafka_9801_a_member_that_is_restarted_before_the_assignment_makes_the_group_rebalance(
    clients: Clients,
) -> None:
    first = clients.join(instance_id="one")
    second = clients.join(instance_id="two")
    leader = clients.join(first.member_id, instance_id="one")
    waiting = clients.sync(second.member_id, 2, instance_id="two")
    back = clients.join(instance_id="two")
    assert waiting.error == ErrorCode.FENCED_INSTANCE_ID
    assert back.is_parked
    assert clients.assign(leader).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert clients.join(leader.member_id, instance_id="one").listed == [leader.member_id, back.member_id]


def test_the_parked_join_of_a_replaced_member_is_fenced(clients: Clients) -> None:
    ids = stable(clients, "one", "two")
    lost = clients.join(ids["one"], instance_id="one")
    assert lost.is_parked
    back = clients.join(instance_id="one")
    assert lost.error == ErrorCode.FENCED_INSTANCE_ID
    clients.join(ids["two"], instance_id="two")
    assert back.generation == 3


def test_kafka_8220_static_members_that_do_not_join_in_time_keep_their_place(clients: Clients) -> None:
    ids = stable(clients, "one", "two")
    again = clients.join(ids["one"], instance_id="one", session_ms=SESSION_MS)
    clients.stay_alive([ids["two"]], REBALANCE_MS + 1)
    assert again.listed == [ids["one"], ids["two"]]


def test_if_no_static_member_joins_in_time_the_group_waits_on(clients: Clients) -> None:
    ids = stable(clients, "one", "two")
    newcomer = clients.join(version=4)
    joining = clients.join(newcomer.member_id, version=4)
    clients.leave(newcomer.member_id)
    assert joining.error == ErrorCode.UNKNOWN_MEMBER_ID
    clients.stay_alive(list(ids.values()), REBALANCE_MS + 1)
    assert (clients.state, clients.group.generation) == ("PreparingRebalance", 2)
    clients.join(ids["two"], instance_id="two")
    back = clients.join(ids["one"], instance_id="one")
    assert back.generation == 3


def test_a_leader_that_does_not_join_in_time_is_replaced_by_one_that_has(clients: Clients) -> None:
    ids = stable(clients, "one", "two")
    second = clients.join(ids["two"], instance_id="two", protocols=(("range", b"more"),))
    clients.stay_alive([ids["one"]], REBALANCE_MS + 1)
    assert second.response.leader == ids["two"]
    assert second.listed == [ids["one"], ids["two"]]


def test_a_full_group_takes_back_its_own_static_member() -> None:
    clients = Clients(max_size=1)
    stable(clients, "one")
    assert clients.join(instance_id="one").error == OK
    assert clients.join(instance_id="two").error == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_administrator_removes_a_static_member_by_its_name(clients: Clients) -> None:
    ids = stable(clients, "one", "two")
    assert clients.leave("", instance_id="two") == [OK]
    assert clients.beat(ids["one"], 2, instance_id="one") == ErrorCode.REBALANCE_IN_PROGRESS
    assert "two" not in clients.group.instances


def test_a_static_member_whose_session_is_over_is_removed(clients: Clients) -> None:
    ids = stable(clients, "one", "two")
    clients.stay_alive([ids["one"]], SESSION_MS + 1)
    assert list(clients.group.instances) == ["one"]
    back: Joined = clients.join(instance_id="two")
    assert back.is_parked


def test_the_sessions_of_a_replaced_member_do_not_touch_the_new_one(clients: Clients) -> None:
    stable(clients, "one")
    clients.advance_ms(SESSION_MS - 1)
    back = clients.join(instance_id="one")
    clients.advance_ms(SESSION_MS - 1)
    assert clients.beat(back.member_id, 1) == OK
    assert clients.heartbeat_purgatory.num_delayed == 1
