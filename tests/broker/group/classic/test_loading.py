"""Classic groups survive their coordinator: what is written, what is loaded, and what an unloaded group answers."""

from __future__ import annotations

from purgatorio.broker.group.classic.classic_group import ClassicGroup
from purgatorio.protocol.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    decode_key,
    decode_value,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import iter_batches, iter_records
from tests.broker.group.classic.harness import GROUP, OK, REBALANCE_MS, SESSION_MS, Clients
from tests.broker.group.harness import PARTITION


def written(clients: Clients) -> list[GroupMetadataValue | None]:
    """Return the values of all records of the group."""
    partition = clients.replicas.lookup.known(PARTITION)
    assert partition is not None
    data = b"".join(partition.log.read(0, max_bytes=1_000_000, end_offset=partition.log.log_end_offset).parts)
    values: list[GroupMetadataValue | None] = []
    for _, batch in iter_batches(data):
        for record in iter_records(batch):
            key = decode_key(record.key or b"")
            assert isinstance(key, GroupMetadataKey)
            value = decode_value(key, record.value)
            assert value is None or isinstance(value, GroupMetadataValue)
            values.append(value)
    return values


def test_a_generation_is_written_with_its_assignment_and_an_empty_group_without_members(clients: Clients) -> None:
    (first,) = clients.stable(1)
    stable_ms = clients.clock.wall_ms()
    clients.advance_ms(1_000)
    clients.leave(first)
    generation, empty = written(clients)
    assert generation is not None
    assert empty is not None
    assert (generation.protocol_type, generation.generation, generation.protocol, generation.leader) == (
        "consumer",
        1,
        "range",
        first,
    )
    assert generation.members == [
        MemberMetadata(
            member_id=first,
            client_id="app",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=REBALANCE_MS,
            session_timeout_ms=SESSION_MS,
            subscription=b"topics",
            assignment=first.encode(),
        )
    ]
    assert (empty.protocol_type, empty.generation, empty.protocol, empty.leader) == ("consumer", 2, None, None)
    assert empty.members == []
    assert empty.current_state_timestamp_ms == stable_ms + 1_000


def test_a_stable_group_is_loaded_as_it_was(clients: Clients) -> None:
    first, second = clients.stable(2)
    clients.reload()
    assert clients.state == "Stable"
    assert clients.group.leader_id == first
    assert clients.beat(first, 2) == clients.beat(second, 2) == OK
    assert clients.sync(second, 2).assignment == second.encode()


def test_loaded_members_have_their_whole_session_again(clients: Clients) -> None:
    first, _ = clients.stable(2)
    clients.advance_ms(SESSION_MS - 1)
    clients.reload()
    clients.advance_ms(SESSION_MS - 1)
    assert clients.beat(first, 2) == OK
    clients.advance_ms(2)
    assert list(clients.group.members) == [first]


def test_static_members_are_loaded_with_their_names(clients: Clients) -> None:
    joined = clients.join(instance_id="one")
    clients.assign(joined)
    clients.reload()
    back = clients.join(instance_id="one")
    assert (back.error, back.generation) == (OK, 1)


def test_an_empty_group_is_loaded_with_its_generation(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.leave(first)
    clients.reload()
    assert (clients.state, clients.group.generation, clients.group.protocol_type) == ("Empty", 2, "consumer")
    assert clients.join().generation == 3


def test_a_loaded_group_takes_members_with_the_same_protocol_only(clients: Clients) -> None:
    clients.stable(1)
    clients.reload()
    assert clients.join(protocols=(("other", b""),)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert clients.join().is_parked


def test_parked_joins_and_syncs_of_an_unloaded_group_look_for_another_coordinator(clients: Clients) -> None:
    (first,) = clients.stable(1)
    joining = clients.join()
    other = clients.join(group_id="other")
    clients.sync(other.member_id, 1, {}, group_id="other")
    clients.join(group_id="other")
    leader = clients.join(other.member_id, group_id="other")
    follower = next(each for each in leader.listed if each != other.member_id)
    syncing = clients.sync(follower, 2, group_id="other")
    clients.elect(2, 5)
    clients.work()
    assert joining.error == syncing.error == ErrorCode.NOT_COORDINATOR
    assert clients.beat(first, 1) == ErrorCode.NOT_COORDINATOR
    assert clients.heartbeat_purgatory.num_delayed == clients.rebalance_purgatory.num_delayed == 0


def test_between_the_loss_of_the_partition_and_the_unloading_nothing_changes(clients: Clients) -> None:
    first, _ = clients.stable(2)
    joining = clients.join(first)
    group = clients.group
    clients.elect(2, 5)
    clients.advance_ms(REBALANCE_MS + 1)
    assert joining.is_parked
    assert (group.generation, len(group.members)) == (2, 2)
    clients.work()
    assert joining.error == ErrorCode.NOT_COORDINATOR
    assert clients.rebalance_purgatory.num_delayed == 0


def test_a_commit_that_comes_after_the_partition_was_lost_changes_nothing(replicated: Clients) -> None:
    syncing = replicated.assign(replicated.join())
    group = replicated.group
    replicated.elect(2, 5)
    replicated.work()
    assert syncing.error == ErrorCode.NOT_COORDINATOR
    assert group.state_name == "Dead"


def test_while_the_partition_is_loaded_joins_are_told_to_come_again(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.elect(1, 5, replicas=(1,))
    assert clients.join().error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert clients.sync(first, 1).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_group_in_the_midst_of_a_rebalance_is_loaded_as_it_was_before(clients: Clients) -> None:
    first, second = clients.stable(2)
    clients.join(first)
    clients.reload()
    assert (clients.state, clients.group.generation) == ("Stable", 2)
    assert clients.beat(second, 2) == OK


def test_a_tombstone_deletes_the_group(clients: Clients) -> None:
    (first,) = clients.stable(1)
    clients.leave(first)
    clients.groups.cleaner.delete_group(GROUP, lambda error_code: None)
    clients.clean()
    clients.reload()
    assert not clients.has_group


def test_a_shutdown_answers_all_that_waits_with_not_coordinator(clients: Clients) -> None:
    first, _ = clients.stable(2)
    joining = clients.join(first)
    other = clients.join(group_id="other")
    clients.sync(other.member_id, 1, {}, group_id="other")
    for purgatory in (clients.rebalance_purgatory, clients.heartbeat_purgatory):
        purgatory.shutdown()
    assert joining.error == ErrorCode.NOT_COORDINATOR
    late = clients.join(group_id="other")
    assert late.error == ErrorCode.NOT_COORDINATOR
    group = clients.groups.coordinator.shard_of("other").groups["other"]
    assert isinstance(group, ClassicGroup)
