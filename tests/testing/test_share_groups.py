"""Share groups as tests see them: locks that are shown, moved and run out, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purgatorio.admin.cli.main import main
from purgatorio.admin.operations.groups import ResetOffsets
from purgatorio.admin.operations.share_groups import DeleteShareGroup, ResetShareOffsets
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.testing import Kafka, cluster
from tests.testing.sharing import REJECT, ShareMember

pytestmark = pytest.mark.slow


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster() as kafka:
        kafka.topic("orders")
        yield kafka


def initialized(kafka: Kafka, start_offset: int) -> Any:
    """Have the state of group "jobs" for orders-0 initialized; return the cluster."""
    running: Any = kafka._cluster
    key = SharePartitionKey("jobs", running.store.image.topics["orders"].topic_id, 0)

    async def initialize() -> ErrorCode:
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        persister = running.brokers[0].coordinators.persister
        persister.initialize(key, state_epoch=1, start_offset=start_offset, done=done.set_result)
        return await done

    assert kafka._thread.run(initialize(), "initialize the state") == ErrorCode.NONE
    return running


@pytest.fixture
def join(kafka: Kafka) -> Iterator[Callable[[str], ShareMember]]:
    """Return what makes a member of group "jobs" that fetches from the leader of orders-0."""
    running = initialized(kafka, start_offset=0)
    topic = running.store.image.topics["orders"]
    leader = next(each for each in running.brokers if each.broker_id == topic.partitions[0].leader)
    members: list[ShareMember] = []

    def made(member_id: str) -> ShareMember:
        members.append(ShareMember(leader.address, "jobs", member_id, topic.topic_id))
        return members[-1]

    yield made
    for member in members:
        member.__exit__(None, None, None)


def test_a_record_of_a_dead_worker_comes_back_when_its_lock_runs_out(
    kafka: Kafka, join: Callable[[str], ShareMember]
) -> None:
    kafka.produce("orders", "a")
    group = kafka.share_group("jobs")
    assert join("ada").fetch() == [(0, 0, 1)]
    (held,) = group.until_acquired().wait()
    assert (held.offsets, held.state, held.delivery_count, held.member) == (range(1), "acquired", 1, "ada")
    assert held.lock_left_ms is not None
    assert 20_000 < held.lock_left_ms <= 30_000
    (lock,) = kafka.parked(api="AcquisitionLock")
    assert lock.missing == "orders-0: member ada of jobs has not acknowledged 0"
    bob = join("bob")
    bob.send_fetch(max_wait_ms=60_000)
    (waits,) = kafka.until_parked(api="ShareFetch").wait()
    assert waits.missing == "group `jobs` has 0 of 1 bytes: orders-0 from 1"
    kafka.clock.advance(30)
    assert bob.acquired() == [(0, 0, 2)]
    assert bob.acknowledge(0, 0) == 0
    assert (group.in_flight(), group.start_offsets()) == ([], {("orders", 0): 1})


def test_a_partition_has_no_start_offset_before_its_leader_knows_it(
    kafka: Kafka, join: Callable[[str], ShareMember]
) -> None:
    """The leader asks the share coordinator at the first fetch; records that come before the answer may be missed."""
    asks = kafka.fault(api="ReadShareGroupState", hold=True)
    group, ada = kafka.share_group("jobs"), join("ada")
    ada.send_fetch(max_wait_ms=60_000)
    asks.until_fired().wait()
    assert group.start_offsets() == {}
    asks.release()
    kafka.until_parked(api="ShareFetch").wait()
    assert group.start_offsets() == {("orders", 0): 0}


def test_a_record_that_no_member_can_process_is_given_up_after_five_deliveries(
    kafka: Kafka, join: Callable[[str], ShareMember]
) -> None:
    kafka.produce("orders", "poison", "fine")
    group, ada = kafka.share_group("jobs"), join("ada")
    deliveries = []
    while acquired := ada.fetch(max_wait_ms=50, max_records=1):
        deliveries += acquired
        assert group.expire_locks() == 1
    assert [count for first, _, count in deliveries if first == 0] == [1, 2, 3, 4, 5]
    assert group.start_offsets() == {("orders", 0): 2}


def test_what_is_done_out_of_turn_is_shown_until_the_records_before_it_are(
    kafka: Kafka, join: Callable[[str], ShareMember]
) -> None:
    kafka.produce("orders", "a", "b", "c")
    group, ada = kafka.share_group("jobs"), join("ada")
    ada.fetch()
    assert ada.acknowledge(1, 1) == 0
    assert ada.acknowledge(2, 2, REJECT) == 0
    assert [(each.offsets, each.state) for each in group.in_flight()] == [
        (range(1), "acquired"),
        (range(1, 2), "acknowledged"),
        (range(2, 3), "archived"),
    ]
    assert [each.offsets for each in group.archived] == [range(2, 3)]
    assert (group.members, group.acquired(member="bob")) == (["ada"], [])
    assert ada.acknowledge(0, 0) == 0
    assert group.in_flight() == []


def test_the_commands_show_members_with_their_records(
    kafka: Kafka, join: Callable[[str], ShareMember], capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.produce("orders", "a", "b")
    join("ada").fetch()

    def printed(*command: str) -> str:
        assert main([*command, "--admin", kafka.admin_url]) == 0
        return capsys.readouterr().out

    assert printed("share-groups", "list").split() == (
        ["GROUP", "PARTITIONS", "IN", "FLIGHT", "ACQUIRED", "DONE", "LOCKS", "jobs", "1", "2", "2", "0", "1"]
    )
    described = printed("share-groups", "describe", "jobs")
    assert "share group jobs: 1 members fetch" in described
    assert "0-1      acquired  1           ada" in described
    assert "1 acquisition lock of group jobs has run out" in printed("share-groups", "expire-locks", "jobs")


def test_a_member_above_its_quota_leaves_the_records_to_others(
    kafka: Kafka, join: Callable[[str], ShareMember]
) -> None:
    kafka.quota(client_id="ada", consumer_byte_rate=100)
    kafka.produce("orders", "x" * 5_000)
    ada = join("ada")
    assert ada.fetch() == [(0, 0, 1)], "the first batch may be larger than all that the limit allows"
    (muted,) = kafka.until_parked(api="Throttled").wait()
    assert muted.client == "ada"
    kafka.produce("orders", "y")
    other = join("ada")
    assert other.fetch() == []
    assert join("bob").fetch() == [(1, 1, 1)]


# --- groups without members ---


@pytest.fixture
def alone() -> Iterator[tuple[Kafka, ShareMember]]:
    """One broker, which leads orders and coordinates everything, with a member of group "jobs" in a session."""
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        broker = kafka._cluster.brokers[0]
        topic_id = broker.image.topics["orders"].topic_id
        with ShareMember(broker.address, "jobs", "ada", topic_id) as member:
            member.find_coordinator()
            assert member.heartbeat(0, "orders").error_code == ErrorCode.NONE
            member.fetch(max_wait_ms=1)
            yield kafka, member


def test_a_group_without_members_begins_where_it_is_told(
    alone: tuple[Kafka, ShareMember], capsys: pytest.CaptureFixture[str]
) -> None:
    kafka, ada = alone
    kafka.produce("orders", "a", "b", "c")
    assert ada.fetch() == [(0, 2, 1)]
    assert ada.acknowledge(0, 2) == 0
    reset = ["share-groups", "reset-offsets", "jobs", "--topic", "orders", "--admin", kafka.admin_url, "--to"]
    assert main([*reset, "1"]) == 1
    assert "group jobs has members; stop its consumers first" in capsys.readouterr().err
    ada.heartbeat(-1)
    assert main([*reset, "1"]) == 0
    assert capsys.readouterr().out.split() == ["PARTITION", "BEFORE", "NOW", "orders-0", "0", "1"]
    assert kafka.do(ResetShareOffsets("jobs", "orders", to="earliest"))["offsets"][0]["before"] == 1
    ada.close_session()
    ada.heartbeat(0, "orders")
    assert ada.fetch() == [(0, 2, 1)]


def test_a_group_that_had_no_member_for_a_while_skips_no_record(alone: tuple[Kafka, ShareMember]) -> None:
    """By default a group begins with the latest record: once, not whenever a member comes back."""
    kafka, ada = alone
    ada.close_session()
    ada.heartbeat(-1)
    kafka.produce("orders", "a", "b")
    ada.heartbeat(0, "orders")
    assert ada.fetch() == [(0, 1, 1)]


def test_a_leader_that_moves_skips_no_record_that_the_one_before_had_delivered(kafka: Kafka) -> None:
    kafka.produce("orders", "before")
    running = initialized(kafka, start_offset=-1)
    addresses = {each.broker_id: each.address for each in running.brokers}
    topic_id = running.store.image.topics["orders"].topic_id
    with ShareMember(addresses[kafka.leader("orders")], "jobs", "ada", topic_id) as ada:
        while kafka.share_group("jobs").start_offsets() != {("orders", 0): 1}:
            assert ada.fetch(max_wait_ms=1) == []
        kafka.produce("orders", "a", "b")
        assert ada.fetch() == [(1, 2, 1)]
        moved = kafka.move_leader("orders")
    with ShareMember(addresses[moved], "jobs", "bob", topic_id) as bob:
        assert bob.fetch() == [(1, 2, 1)]


def test_a_reset_refuses_what_there_is_not(alone: tuple[Kafka, ShareMember]) -> None:
    kafka, _ = alone
    kafka.do(ResetOffsets("billing", "orders", to="latest"))
    for operation, words in (
        (ResetShareOffsets("jobs", "nothing", to="latest"), "there is no topic nothing"),
        (ResetShareOffsets("jobs", "orders", 9, to="latest"), "topic orders has no partition 9"),
        (ResetShareOffsets("billing", "orders", to="latest"), "billing is no share group, but one of consumers"),
        (DeleteShareGroup("billing"), "billing is no share group, but one of consumers"),
        (DeleteShareGroup("jbos"), "there is no group jbos; did you mean jobs"),
        (DeleteShareGroup("jobs"), "group jobs has members; stop its consumers first"),
    ):
        with pytest.raises(ValueError, match=words):
            kafka.do(operation)
    with pytest.raises(ValueError, match="give one of to, offset, timestamp_ms"):
        ResetShareOffsets("jobs", "orders")


def test_a_deleted_group_begins_anew(alone: tuple[Kafka, ShareMember]) -> None:
    kafka, ada = alone
    ada.heartbeat(-1)
    assert kafka.do(DeleteShareGroup("jobs")) == {"group": "jobs", "state": "deleted"}
    assert kafka.group("jobs") is None
    kafka.produce("orders", "a")
    reset = kafka.do(ResetShareOffsets("jobs", "orders", to="latest"))
    assert reset == {"group": "jobs", "offsets": [{"topic": "orders", "partition": 0, "before": None, "after": 1}]}
    assert kafka.group("jobs") is not None
