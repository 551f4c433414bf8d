"""Joins: what is refused, with which code; the two steps of a new member; the vote; the maximal size."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.classic.harness import OK, SESSION_MS, Clients, Joined

# --- wrong requests ---


@pytest.mark.parametrize(("session_ms", "error"), [(5_999, 26), (6_000, 0), (1_800_000, 0), (1_800_001, 26)])
def test_a_session_timeout_out_of_bounds_is_refused(clients: Clients, session_ms: int, error: int) -> None:
    assert clients.join(session_ms=session_ms).error == error


def test_an_empty_group_id_is_refused(clients: Clients) -> None:
    assert clients.join(group_id="").error == ErrorCode.INVALID_GROUP_ID


def test_a_member_id_in_an_unknown_group_is_refused_and_makes_no_group(clients: Clients) -> None:
    assert clients.join("stranger").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert not clients.has_group


def test_an_unknown_member_id_is_refused(clients: Clients) -> None:
    clients.stable(1)
    assert clients.join("stranger").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert clients.state == "Stable"


@pytest.mark.parametrize(
    "wrong",
    [{"protocol_type": ""}, {"protocols": ()}],
)
def test_a_first_member_needs_a_type_and_a_protocol(clients: Clients, wrong: dict[str, object]) -> None:
    assert clients.join(**wrong).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    assert not clients.has_group


@pytest.mark.parametrize(
    "wrong",
    [{"protocol_type": "connect"}, {"protocols": (("roundrobin", b""),)}, {"protocols": ()}],
)
def test_a_member_of_another_type_or_without_a_common_protocol_is_refused(
    clients: Clients, wrong: dict[str, object]
) -> None:
    clients.stable(1)
    assert clients.join(**wrong).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    assert clients.state == "Stable"


def test_a_member_that_joins_again_needs_a_common_protocol_too(clients: Clients) -> None:
    first, _ = clients.stable(2)
    joined = clients.join(first, protocols=(("roundrobin", b""),))
    assert joined.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert clients.state == "Stable"


def test_an_empty_group_takes_members_of_another_type(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.leave(first)
    assert clients.join(protocol_type="connect", protocols=(("v1", b""),)).error == OK
    assert clients.group.protocol_type == "connect"


# --- the two steps of a new member (KIP-394) ---


def test_a_new_member_gets_an_id_and_joins_with_it(clients: Clients) -> None:
    told = clients.join(version=4, client_id="app")
    assert told.error == ErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id.startswith("app-")
    assert clients.state == "Empty"
    joined = clients.join(told.member_id, version=4)
    assert (joined.error, joined.member_id, joined.generation) == (OK, told.member_id, 1)
    assert not clients.group.pending


def test_an_id_that_was_given_out_holds_a_rebalance_until_its_member_joins(clients: Clients) -> None:
    (first,) = clients.stable(1)
    one, two = clients.join(version=4), clients.join(version=4)
    joining = clients.join(one.member_id, version=4)
    again = clients.join(first)
    assert joining.is_parked
    assert again.is_parked
    (operation,) = clients.rebalance_purgatory.operations()
    assert in_words(operation.causes) == "rebalance of billing waits for 1 new member id to join"
    last = clients.join(two.member_id, version=4)
    assert again.listed == [first, one.member_id, last.member_id]


def test_kafka_7909_a_given_id_that_is_never_used_completes_the_rebalance_when_it_expires(clients: Clients) -> None:
    (first,) = clients.stable(1)
    used, _unused = clients.join(version=4), clients.join(version=4)
    joining = clients.join(used.member_id, version=4)
    again = clients.join(first)
    clients.advance_ms(SESSION_MS + 1)
    assert joining.generation == again.generation == 2


def test_an_id_that_expired_is_unknown(clients: Clients) -> None:
    clients.stable(1)
    told = clients.join(version=4)
    clients.stay_alive([clients.group.leader_id or ""], SESSION_MS + 1)
    assert clients.join(told.member_id, version=4).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_was_made_for_an_id_which_nobody_used_is_forgotten(clients: Clients) -> None:
    clients.join(version=4)
    assert clients.has_group
    clients.advance_ms(SESSION_MS + 1)
    assert not clients.has_group
    assert clients.heartbeat_purgatory.num_delayed == 0


def test_ids_are_never_given_out_to_static_members(clients: Clients) -> None:
    joined = clients.join(version=4, instance_id="one")
    assert (joined.error, joined.generation) == (OK, 1)
    assert joined.member_id.startswith("one-")


# --- joining again ---


def test_a_follower_that_joins_a_stable_group_again_unchanged_gets_the_present_generation(clients: Clients) -> None:
    first, second = clients.stable(2)
    joined = clients.join(second)
    assert (joined.generation, joined.listed, joined.response.leader) == (2, [], first)
    assert clients.state == "Stable"


@pytest.mark.parametrize("changed", [(("range", b"other topics"),), (("range", b"topics"), ("roundrobin", b""))])
def test_a_follower_that_has_changed_makes_a_stable_group_rebalance(
    clients: Clients, changed: tuple[tuple[str, bytes], ...]
) -> None:
    _, second = clients.stable(2)
    assert clients.join(second, protocols=changed).is_parked
    assert clients.state == "PreparingRebalance"


def test_a_leader_that_joins_again_makes_a_stable_group_rebalance(clients: Clients) -> None:
    first, _ = clients.stable(2)
    assert clients.join(first).is_parked
    assert clients.state == "PreparingRebalance"


def test_before_the_assignment_an_unchanged_member_gets_its_lost_answer_again(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    leader = clients.join(first)
    assert clients.join(first).listed == leader.listed
    assert clients.join(second.member_id).listed == []
    assert clients.state == "CompletingRebalance"


def test_before_the_assignment_a_changed_member_makes_the_group_rebalance(clients: Clients) -> None:
    (first,) = clients.stable(1)
    second = clients.join()
    clients.join(first)
    waiting = clients.sync(second.member_id, 2)
    clients.join(first, protocols=(("range", b"more"),))
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert clients.state == "PreparingRebalance"


def test_a_join_that_is_sent_again_answers_the_one_before(clients: Clients) -> None:
    first, second = clients.stable(2)
    lost = clients.join(first)
    again = clients.join(first)
    assert lost.error == ErrorCode.REBALANCE_IN_PROGRESS
    clients.join(second)
    assert (again.error, again.generation) == (OK, 3)


def test_kafka_14201_the_timeouts_of_a_later_join_hold_from_then_on(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.join(first, session_ms=20_000, rebalance_ms=90_000)
    member = clients.group.members[first]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 90_000)
    (session,) = clients.heartbeat_purgatory.operations()
    assert session.deadline_ms == clients.clock.now_ms() + 20_000


# --- the vote ---


def join_two(
    clients: Clients, first: tuple[tuple[str, bytes], ...], second: tuple[tuple[str, bytes], ...]
) -> tuple[Joined, Joined]:
    leader = clients.join(protocols=first)
    follower = clients.join(protocols=second)
    return clients.join(leader.member_id, protocols=first), follower


def test_only_a_protocol_that_all_members_support_is_chosen(clients: Clients) -> None:
    leader, _ = join_two(clients, (("a", b"1"), ("b", b"2")), (("b", b"3"), ("c", b"4")))
    assert leader.response.protocol_name == "b"
    assert [bytes(each.metadata) for each in leader.response.members] == [b"2", b"3"]


def test_most_votes_win(clients: Clients) -> None:
    one, two = (("a", b""), ("b", b"")), (("b", b""), ("a", b""))
    leader = clients.join(protocols=one)
    clients.join(protocols=two)
    clients.join(protocols=two)
    assert clients.join(leader.member_id, protocols=one).response.protocol_name == "b"


def test_a_protocol_named_twice_counts_once(clients: Clients) -> None:
    leader, _ = join_two(clients, (("a", b""), ("a", b""), ("b", b"")), (("b", b""),))
    assert leader.response.protocol_name == "b"


# --- the maximal size ---


def test_a_full_group_refuses_new_members_and_keeps_the_old_ones() -> None:
    clients = Clients(max_size=2)
    first, second = clients.stable(2)
    assert clients.join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert clients.state == "Stable"
    assert clients.beat(first, 2) == clients.beat(second, 2) == OK


def test_kafka_9844_a_given_id_is_refused_and_forgotten_when_the_group_has_become_full() -> None:
    clients = Clients(max_size=2)
    (first,) = clients.stable(1)
    ids = [clients.join(version=4).member_id for _ in range(2)]
    clients.join(ids[0], version=4)
    again = clients.join(first)
    refused = clients.join(ids[1], version=4)
    assert refused.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert again.listed == [first, ids[0]]
    assert not clients.group.pending


def test_kafka_9885_when_the_limit_was_cut_the_last_to_join_again_are_evicted() -> None:
    clients = Clients(replicas=(1,))
    ids = clients.stable(3)
    small = clients.with_config(max_size=2)
    assert small.state == "PreparingRebalance"
    joins = [small.join(each) for each in ids]
    assert [joined.error for joined in joins[2:]] == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    small.advance_ms(60_001)
    assert [each.member_id for each in joins[0].response.members] == ids[:2]


def test_ids_are_not_given_out_without_end() -> None:
    clients = Clients(max_size=3)
    told = [clients.join(version=4).error for _ in range(4)]
    assert told == [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_a_partition_has_a_maximal_number_of_groups() -> None:
    clients = Clients(max_groups=2)
    assert [clients.join(group_id=f"group-{nth}").error for nth in range(3)] == [
        OK,
        OK,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
