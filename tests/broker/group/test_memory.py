"""What groups keep of what clients have sent has a count and a limit, and goes with the groups."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.memory import GroupMemory, text_bytes
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.protocol.api import decode_request, decode_request_header, encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.group.classic.harness import GROUP, OK, Clients
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness
from tests.broker.group.counted import check_counts
from tests.broker.group.harness import PARTITION, GroupHarness

KIB = 1024
LARGE = (("range", bytes(100 * KIB)),)


def commit(broker: GroupHarness, group_id: str, metadata: str, partition: int = 0) -> None:
    committed = CommittedOffset(7, -1, metadata, broker.clock.wall_ms())
    broker.groups.offsets.commit(group_id, [("orders", partition, committed)], lambda code: None, version=8)


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(CoordinatorError) as refused:
        call()
    return refused.value.error_code


def test_a_part_counts_in_its_whole_until_it_leaves() -> None:
    broker, shard, group = GroupMemory(), GroupMemory(), GroupMemory()
    group.change(5)
    shard.enter(broker)
    group.enter(shard)
    group.change(2)
    assert (broker.used_bytes, shard.used_bytes) == (7, 7)
    group.enter(shard)
    assert broker.used_bytes == 7
    group.leave()
    group.change(-2)
    group.leave()
    assert (broker.used_bytes, shard.used_bytes, group.used_bytes) == (0, 0, 5)


# --- one connection of the attack "group state has no bound of memory" ---


def test_subscriptions_of_classic_members_are_refused_beyond_the_limit() -> None:
    clients = Clients(max_memory_bytes=1_000 * KIB)
    joined = [clients.join(protocols=LARGE, group_id=f"g{nth}") for nth in range(20)]
    assert [each.error for each in joined[:9]] == [OK] * 9
    assert {each.error for each in joined[9:]} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert check_counts(clients.groups) <= 1_000 * KIB


def test_client_ids_are_refused_beyond_the_limit() -> None:
    clients = Clients(max_memory_bytes=1_000 * KIB)
    asked = [clients.join(client_id="c" * 32_000, version=9, group_id=f"g{nth}") for nth in range(30)]
    assert {each.error for each in asked} == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert check_counts(clients.groups) <= 1_000 * KIB


def test_subscriptions_of_consumer_members_are_refused_beyond_the_limit() -> None:
    broker = ConsumerHarness(max_memory_bytes=1_000 * KIB)
    names = [f"topic-{nth}" for nth in range(500)]
    for nth in range(2):
        Consumer(broker, f"m{nth}", names).beat()
    with pytest.raises(CoordinatorError, match=r"group\.coordinator\.memory\.max\.bytes") as refused:  # noqa: PT012
        for nth in range(2, 10):
            Consumer(broker, f"m{nth}", names).beat()
    assert refused.value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert 600 * KIB < check_counts(broker.groups) <= 1_000 * KIB


def test_a_known_consumer_member_is_refused_a_larger_subscription_and_stays() -> None:
    broker = ConsumerHarness(max_memory_bytes=100 * KIB)
    one = Consumer(broker, "one")
    broker.settle(one)
    names = [f"topic-{nth}" for nth in range(500)]
    code = broker.refusal(member_id="one", member_epoch=one.epoch, subscribed_topic_names=names)
    assert code == ErrorCode.GROUP_MAX_SIZE_REACHED
    broker.settle(one)
    assert len(one.partitions) == 6


def test_metadata_of_offsets_and_ids_of_their_groups_are_refused_beyond_the_limit() -> None:
    broker = GroupHarness(max_memory_bytes=100 * KIB)
    for nth in range(20):
        commit(broker, "app", "m" * 4_000, partition=nth)
    assert refusal(lambda: [commit(broker, "app", "m" * 4_000, partition=each) for each in range(20, 30)]) == (
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    )
    assert refusal(lambda: commit(broker, "g" * 32_000, "")) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    commit(broker, "app", "m" * 4_000, partition=3)  # known offsets go on
    commit(broker, "app", "", partition=40)
    assert check_counts(broker.groups) <= 100 * KIB


def test_known_members_go_on_at_the_limit_and_others_come_when_there_is_room() -> None:
    clients = Clients(max_memory_bytes=300 * KIB)
    first = clients.join(protocols=LARGE)
    clients.assign(first)
    other = clients.join(protocols=LARGE, group_id="other")
    assert clients.join(protocols=LARGE, group_id="third").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert clients.beat(first.member_id, 1) == OK
    again = clients.join(first.member_id, protocols=LARGE)
    assert clients.assign(again).error == OK
    clients.leave(other.member_id, group_id="other")
    assert clients.join(protocols=LARGE, group_id="third").error == OK


# --- sizes of one request ---


def test_a_join_that_no_record_can_hold_is_refused_before_it_is_copied() -> None:
    clients = Clients()
    metadata = bytes(50 * KIB * KIB)
    tracemalloc.start()
    try:
        joined = clients.join(protocols=(("range", metadata),))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert joined.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert peak_bytes < 1_000 * KIB
    assert clients.join(protocols=(("range", metadata[: 2 * KIB * KIB]),)).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    many = tuple((f"p{nth}", bytes(900 * KIB)) for nth in range(5))
    assert clients.join(protocols=many).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert clients.join(protocols=many[:4]).error == OK


@pytest.mark.parametrize("version", [3, 5])
def test_the_bytes_of_joins_and_syncs_are_not_copied_when_they_are_decoded(version: int) -> None:
    data = bytes(200 * KIB)
    join = JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name="range", metadata=data)])
    sync = SyncGroupRequest(assignments=[SyncGroupRequestAssignment(member_id="m", assignment=data)])
    for key, request in ((ApiKey.JOIN_GROUP, join), (ApiKey.SYNC_GROUP, sync)):
        frame = b"".join(encode_request(key, version, 1, "app", request))[4:]
        header, position = decode_request_header(frame)
        decoded: Any = decode_request(header, frame, position)
        given = decoded.protocols[0].metadata if key == ApiKey.JOIN_GROUP else decoded.assignments[0].assignment
        assert isinstance(given, memoryview)
        assert (given.obj, given) == (frame, data)


def test_an_assignment_that_no_record_can_hold_is_refused_before_it_is_copied() -> None:
    clients = Clients()
    leader = clients.join()
    assignment = {leader.member_id: bytes(50 * KIB * KIB)}
    tracemalloc.start()
    try:
        synced = clients.sync(leader.member_id, 1, assignment)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert synced.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert peak_bytes < 1_000 * KIB
    assert clients.state == "PreparingRebalance"


def test_an_assignment_without_room_is_refused() -> None:
    clients = Clients(max_memory_bytes=100 * KIB)
    leader = clients.join()
    synced = clients.sync(leader.member_id, 1, {leader.member_id: bytes(200 * KIB)})
    assert synced.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert clients.state == "PreparingRebalance"


def test_names_of_topics_that_no_record_can_hold_are_refused() -> None:
    broker = ConsumerHarness()
    names = ["t" * 30_000 + str(nth) for nth in range(40)]
    assert broker.refusal(**Consumer(broker, "one", names).request()) == ErrorCode.INVALID_REQUEST


# --- back to zero ---


def test_what_classic_members_kept_goes_with_them_and_their_group() -> None:
    clients = Clients(offsets_retention_ms=1)
    before = check_counts(clients.groups)
    ids = clients.stable(3, protocols=LARGE)
    clients.join(instance_id="static", client_id="c" * 999)
    asked = clients.join(version=9)
    assert check_counts(clients.groups) > 300 * KIB
    clients.leave(asked.member_id)
    clients.leave(clients.group.instances["static"], instance_id="static")
    clients.leave(*ids)
    assert check_counts(clients.groups) < 10 * KIB
    for _ in clients.groups.cleaner.expiry_steps():
        pass
    assert not clients.has_group
    assert check_counts(clients.groups) == before == 0


def test_what_silent_members_kept_goes_with_their_sessions() -> None:
    clients = Clients()
    clients.stable(3, protocols=LARGE)
    asked = clients.join(version=9, group_id="other")
    assert asked.error == ErrorCode.MEMBER_ID_REQUIRED
    for _ in range(20):
        clients.advance_ms(60_000)
    assert check_counts(clients.groups) < 10 * KIB


def test_what_consumer_members_kept_goes_with_them_and_their_group() -> None:
    broker = ConsumerHarness()
    one = Consumer(broker, "one", [f"topic-{nth}" for nth in range(200)], subscribed_topic_regex="o.*", rack_id="r")
    two = Consumer(broker, "two", instance_id="static")
    broker.settle(one, two)
    assert check_counts(broker.groups) > 100 * KIB
    two.leave(-2)
    check_counts(broker.groups)
    two.beat()
    broker.settle(one, two)
    check_counts(broker.groups)
    for each in (one, two):
        each.leave()
        check_counts(broker.groups)
    broker.groups.cleaner.delete_group("app", lambda code: None)
    broker.clean()
    assert check_counts(broker.groups) == 0


def test_what_offsets_kept_goes_with_them() -> None:
    broker = GroupHarness()
    commit(broker, "app", "note")
    commit(broker, "app", "a longer note")
    commit(broker, "app", "", partition=1)
    commit(broker, "other", "note")
    assert check_counts(broker.groups) == text_bytes("app", "a longer note", "other", "note")
    for group_id in ("app", "other"):
        broker.groups.cleaner.delete_group(group_id, lambda code: None)
    broker.clean()
    assert check_counts(broker.groups) == 0


@pytest.mark.parametrize("commits", [True, False])
def test_what_offsets_of_transactions_kept_goes_with_them(commits: bool) -> None:
    broker = GroupHarness()
    shard = broker.groups.coordinator.shard_of("app")
    offsets = shard.offsets
    for metadata in ("note", "another note"):
        offsets.transactional.put(5, "app", "orders", 0, CommittedOffset(7, -1, metadata, 0))
    assert check_counts(broker.groups) == text_bytes("app", "another note")
    offsets.end(5, commits=commits)
    assert check_counts(broker.groups) == (text_bytes("app", "another note") if commits else 0)
    offsets.remove("app", "orders", 0)
    assert check_counts(broker.groups) == 0


def test_what_a_lost_partition_kept_is_not_counted_any_more_and_is_when_it_is_loaded() -> None:
    clients = Clients(replicas=(1, 2))
    joined = clients.join(protocols=LARGE)
    clients.assign(joined)
    clients.replicate()
    commit_of_other = check_counts(clients.groups)
    assert commit_of_other > 100 * KIB
    clients.elect(2, 1)
    clients.work()
    assert clients.groups.memory.used_bytes == 0
    clients.reload(2)
    assert clients.group.members.keys() == {joined.member_id}
    assert check_counts(clients.groups) == commit_of_other


# --- the estimates ---


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classic", "client ids", "consumer", "expressions"])
def test_the_count_is_not_less_than_what_is_taken(kind: str) -> None:
    names = [f"some-topic-of-a-group-{nth}" for nth in range(100)]
    broker: ConsumerHarness | Clients = Clients() if kind in ("classic", "client ids") else ConsumerHarness()
    tracemalloc.start()
    try:
        log_before = broker.partition(PARTITION).log.size_bytes
        before = tracemalloc.get_traced_memory()[0]
        for nth in range(200):
            if isinstance(broker, Clients):
                client_id = f"{nth}" * (10_000 if kind == "client ids" else 1)
                assert broker.join(group_id=f"{GROUP}-{nth}", client_id=client_id).error == OK
            elif kind == "consumer":
                broker.ask(group_id=f"g{nth}", member_id=f"m{nth}", member_epoch=0, rebalance_timeout_ms=9_000,
                           subscribed_topic_names=[f"{each}.{nth}" for each in names], topic_partitions=[])  # fmt: skip
            else:
                broker.ask(group_id=f"g{nth}", member_id=f"m{nth}", member_epoch=0, rebalance_timeout_ms=9_000,
                           subscribed_topic_regex=f"orders|(a|b){{20}}{nth}", topic_partitions=[])  # fmt: skip
        taken_bytes = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    taken_bytes -= broker.partition(PARTITION).log.size_bytes - log_before
    counted_bytes = check_counts(broker.groups)
    assert taken_bytes / 2 < counted_bytes < 3 * taken_bytes, (taken_bytes // 200, counted_bytes // 200)
