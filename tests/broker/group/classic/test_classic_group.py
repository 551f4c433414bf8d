"""The state of a classic group by itself: its transitions, what expires, what its members subscribe to, their names."""

from __future__ import annotations

from itertools import product

import pytest

from purgatorio.broker.causes.cause import AwaitedMember
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.broker.group.classic.member import TRANSITIONS, ClassicGroupMember, GroupState
from purgatorio.broker.group.classic.rebalances import JoinKey
from purgatorio.broker.group.delayed_heartbeat import MemberKey
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_protocol import SUBSCRIPTION, ConsumerProtocolSubscription
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.harness import PARTITION

NOW_MS = 5_000


def subscription(*topics: str) -> bytes:
    return SUBSCRIPTION.encode(ConsumerProtocolSubscription(topics=list(topics)), 1)


def member(
    member_id: str, metadata: bytes = b"", *, client_id: str = "app", instance_id: str | None = None
) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocols=(("range", metadata),),
    )


@pytest.fixture
def group() -> ClassicGroup:
    return ClassicGroup("billing", GroupShard(PARTITION, 0, {}), state_ms=1_000)


def stable(group: ClassicGroup, *members: ClassicGroupMember, protocol_type: str = "consumer") -> ClassicGroup:
    group.protocol_type = protocol_type
    for each in members:
        group.add(each)
    group.move_to(GroupState.PREPARING_REBALANCE, NOW_MS)
    group.next_generation(NOW_MS)
    group.move_to(GroupState.STABLE, NOW_MS)
    return group


@pytest.mark.parametrize(("before", "after"), list(product(GroupState, GroupState)))
def test_the_state_changes_as_the_table_says(group: ClassicGroup, before: GroupState, after: GroupState) -> None:
    group.state = before
    if after in TRANSITIONS[before]:
        group.move_to(after, NOW_MS)
        assert (group.state, group.state_ms) == (after, NOW_MS)
    else:
        with pytest.raises(AssertionError):
            group.move_to(after, NOW_MS)


def test_a_dead_group_stays_dead_and_any_other_may_die() -> None:
    assert not TRANSITIONS[GroupState.DEAD]
    assert all(GroupState.DEAD in TRANSITIONS[state] for state in GroupState if state is not GroupState.DEAD)


# --- topics and expiry (KIP-211) ---


def test_a_group_subscribes_to_the_topics_of_all_its_members(group: ClassicGroup) -> None:
    stable(group, member("a", subscription("orders")), member("b", subscription("bills", "orders")))
    assert group.subscribes_to("orders")
    assert group.subscribes_to("bills")
    assert not group.subscribes_to("other")


def test_a_new_generation_may_subscribe_to_other_topics(group: ClassicGroup) -> None:
    first = member("a", subscription("orders"))
    stable(group, first)
    assert group.subscribes_to("orders")
    group.update(first, (("range", subscription("bills")),), rebalance_timeout_ms=1, session_timeout_ms=1)
    assert not group.subscribes_to("orders")
    assert group.subscribes_to("bills")


@pytest.mark.parametrize("version", [-1, 1, 3, 9])
def test_topics_are_read_though_a_subscription_has_a_version_ahead_of_its_fields(
    group: ClassicGroup, version: int
) -> None:
    """platformatic/kafka 1 says version 1 and writes the fields of version 0."""
    written = SUBSCRIPTION.encode(ConsumerProtocolSubscription(topics=["orders"]), 0)
    stable(group, member("a", version.to_bytes(2, signed=True) + written[2:]))
    assert group.subscribes_to("orders")
    assert not group.subscribes_to("bills")
    assert group.offset_expires_from_ms("bills", commit_ms=10) == 10


@pytest.mark.parametrize("metadata", [b"", b"\xff\xff\xff"])
def test_what_cannot_be_read_counts_as_a_subscription_to_everything(group: ClassicGroup, metadata: bytes) -> None:
    stable(group, member("a", metadata))
    assert group.subscribes_to("orders")


def test_members_of_another_type_count_as_subscribed_to_everything(group: ClassicGroup) -> None:
    stable(group, member("a", subscription("orders")), protocol_type="connect")
    assert group.subscribes_to("bills")


def test_offsets_of_an_empty_group_expire_from_the_time_at_which_it_became_empty(group: ClassicGroup) -> None:
    group.protocol_type = "consumer"
    assert group.offset_expires_from_ms("orders", commit_ms=10) == 1_000


def test_offsets_of_an_empty_group_whose_record_lacks_that_time_expire_from_their_commit(group: ClassicGroup) -> None:
    group.protocol_type = "consumer"
    group.state_ms = -1
    assert group.offset_expires_from_ms("orders", commit_ms=10) == 10


def test_offsets_of_a_group_that_has_never_had_members_expire_from_their_commit(group: ClassicGroup) -> None:
    assert group.offset_expires_from_ms("orders", commit_ms=10) == 10


def test_offsets_of_a_stable_group_expire_if_nobody_subscribes_to_the_topic(group: ClassicGroup) -> None:
    stable(group, member("a", subscription("orders")))
    assert group.offset_expires_from_ms("orders", commit_ms=10) is None
    assert group.offset_expires_from_ms("bills", commit_ms=10) == 10


def test_kafka_13636_no_offset_expires_while_the_group_rebalances(group: ClassicGroup) -> None:
    stable(group, member("a", subscription("orders")))
    group.move_to(GroupState.PREPARING_REBALANCE, NOW_MS)
    assert group.offset_expires_from_ms("bills", commit_ms=10) is None


def test_offsets_of_members_that_are_no_consumers_do_not_expire(group: ClassicGroup) -> None:
    stable(group, member("a", b"?"), protocol_type="connect")
    assert group.offset_expires_from_ms("orders", commit_ms=10) is None


# --- deletion ---


def test_only_an_empty_group_may_be_deleted(group: ClassicGroup) -> None:
    group.check_delete()
    stable(group, member("a"))
    with pytest.raises(CoordinatorError) as refused:
        group.check_delete()
    assert refused.value.error_code == ErrorCode.NON_EMPTY_GROUP


def test_a_dead_group_is_not_found(group: ClassicGroup) -> None:
    group.move_to(GroupState.DEAD, NOW_MS)
    with pytest.raises(CoordinatorError) as refused:
        group.check_delete()
    assert refused.value.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_every_request_of_a_member_of_a_dead_group_looks_for_another_coordinator(group: ClassicGroup) -> None:
    stable(group, member("a"))
    group.move_to(GroupState.DEAD, NOW_MS)
    with pytest.raises(CoordinatorError) as refused:
        group.check_commit("a", None, 1, 9)
    assert refused.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- commits of transactions (KIP-447) ---


def txn_refusal(group: Group, *membership: object) -> ErrorCode:
    """The error code of a commit with member id, instance id and generation; NONE: it is accepted."""
    try:
        group.check_txn_commit(*membership)  # type: ignore[arg-type]  # the table of a test
    except CoordinatorError as error:
        return error.error_code
    return ErrorCode.NONE


def test_kip_447_a_membership_that_is_given_is_checked(group: ClassicGroup) -> None:
    stable(group, member("a"), member("b", instance_id="static"))
    assert {
        membership: txn_refusal(group, *membership)
        for membership in [
            ("", None, -1),
            ("a", None, 1),
            ("b", "static", 1),
            ("a", None, 0),
            ("a", None, -1),
            ("x", None, 1),
            ("x", None, -1),
            ("", None, 1),
            ("a", "static", 1),
            ("b", "unknown", 1),
            ("", "static", -1),
        ]
    } == {
        ("", None, -1): ErrorCode.NONE,
        ("a", None, 1): ErrorCode.NONE,
        ("b", "static", 1): ErrorCode.NONE,
        ("a", None, 0): ErrorCode.ILLEGAL_GENERATION,
        ("a", None, -1): ErrorCode.ILLEGAL_GENERATION,
        ("x", None, 1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("x", None, -1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("", None, 1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("a", "static", 1): ErrorCode.FENCED_INSTANCE_ID,
        ("b", "unknown", 1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("", "static", -1): ErrorCode.FENCED_INSTANCE_ID,
    }


def test_kip_447_an_empty_group_accepts_what_names_no_generation(group: ClassicGroup) -> None:
    assert txn_refusal(group, "", None, -1) == ErrorCode.NONE
    assert txn_refusal(group, "gone", None, -1) == ErrorCode.NONE
    assert txn_refusal(group, "gone", None, 1) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_kip_447_a_rebalance_is_no_reason_to_refuse(group: ClassicGroup, state: GroupState) -> None:
    stable(group, member("a"))
    group.state = state
    assert txn_refusal(group, "a", None, 1) == ErrorCode.NONE


# --- names for people ---


def test_a_member_is_called_by_its_instance_id_or_a_client_id_of_its_own_or_its_member_id(group: ClassicGroup) -> None:
    named = [member("1", instance_id="static"), member("2", client_id="web"), member("3"), member("4")]
    stable(group, *named)
    assert [group.label(each) for each in named] == ["static", "web", "3", "4"]


def test_of_many_members_that_are_awaited_the_first_ones_are_named(group: ClassicGroup) -> None:
    named = [member(str(nth)) for nth in range(8)]
    stable(group, *named)
    assert group.awaited(named) == (tuple(AwaitedMember(each.member_id, each.member_id) for each in named[:5]), 3)
    assert group.awaited(named[:1]) == ((AwaitedMember(named[0].member_id, "0"),), 0)


def test_very_long_ids_are_cut_where_people_see_them(group: ClassicGroup) -> None:
    endless = member("m" * 32_000, client_id="")
    stable(group, endless)
    assert group.label(endless) == "m" * 100 + "…"
    assert len(str(JoinKey("g" * 32_000))) < 120
    assert len(str(MemberKey("g" * 32_000, endless.member_id))) < 220
