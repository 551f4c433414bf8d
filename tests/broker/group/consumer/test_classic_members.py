"""Members of both protocols in one group, while it goes from one to the other."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.protocol.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from purgatorio.protocol.messages.leave_group import MemberIdentity
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.group.classic.harness import Joined, Synced, context
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness, is_consistent

SESSION_MS, REBALANCE_MS = 10_000, 20_000


class ClassicConsumer:
    """A consumer of the classic protocol: `beat` does all that its client would do until its next heartbeat.

    Args:
        is_cooperative: it keeps its partitions while it joins again, and gives up what the assignment lacks.
        instance_id: its name as a static member.
    """

    def __init__(
        self, broker: ConsumerHarness, *, is_cooperative: bool = False, instance_id: str | None = None
    ) -> None:
        self.broker = broker
        self.protocols = ["cooperative-sticky" if is_cooperative else "range"]
        self.is_cooperative = is_cooperative
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: dict[str, list[int]] = {}
        self.has_to_tell = self.has_to_sync = False
        self.joined = Joined()

    @property
    def partitions(self) -> list[str]:
        return sorted(f"{topic}-{number}" for topic, numbers in self.owned.items() for number in numbers)

    def join(self) -> Joined:
        """Send a JoinGroup; the answer may come later."""
        if not self.is_cooperative:
            self.owned = {}
        kept = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in self.owned.items()]
        metadata = SUBSCRIPTION.encode(ConsumerProtocolSubscription(topics=["orders"], owned_partitions=kept), 1)
        request = JoinGroupRequest(
            group_id="app",
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols],
        )
        self.joined = Joined()
        try:
            self.broker.groups.classic.join(context("classic", 5), request, self.joined)
        except CoordinatorError as error:
            self.joined(JoinGroupResponse(error_code=error.error_code))
        if not self.joined.is_parked and self.joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = self.joined.member_id
            return self.join()
        return self.joined

    def sync(self, assignments: dict[str, list[int]] | None = None, user_data: bytes | None = None) -> ErrorCode:
        """Send a SyncGroup, as the leader with what each member gets of the topic orders."""
        joined = self.joined.response
        self.member_id, self.generation = joined.member_id, joined.generation_id
        request = SyncGroupRequest(
            group_id="app",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment(numbers, user_data))
                for member_id, numbers in (assignments or {}).items()
            ],
        )
        answer = Synced()
        try:
            self.broker.groups.classic.sync(context("classic", 5), request, answer)
        except CoordinatorError as error:
            return error.error_code
        response: SyncGroupResponse = answer.only
        given = ASSIGNMENT.decode(response.assignment).assigned_partitions if response.assignment else []
        before, self.owned = self.owned, {each.topic: each.partitions for each in given}
        lost = {number for numbers in before.values() for number in numbers} - set(self.owned.get("orders", []))
        self.has_to_tell = self.is_cooperative and bool(lost)
        return ErrorCode(response.error_code)

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id="app",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        try:
            self.broker.groups.classic.heartbeat(request)
        except CoordinatorError as error:
            return error.error_code
        return ErrorCode.NONE

    def beat(self) -> bool:
        """Send a heartbeat, and join and sync if it says so; returns whether the member has joined."""
        if self.has_to_sync:
            self.has_to_sync = False
            self.sync()
            return True
        error_code = self.heartbeat()
        if error_code == ErrorCode.NONE:
            return False
        if error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            self.member_id, self.generation, self.owned = "", -1, {}
        if not self.join().is_parked and self.joined.error == ErrorCode.NONE:
            self.sync()
        if self.has_to_tell:  # cooperative clients join again when they have given up partitions
            self.has_to_tell = False
            self.join()
            self.sync()
        return True

    def half_a_beat(self) -> None:
        """Join if a heartbeat says so; the sync is for the next heartbeat."""
        if not self.has_to_sync and self.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS:
            self.has_to_sync = self.join().error == ErrorCode.NONE

    def leave(self) -> None:
        self.broker.groups.classic.leave(
            "app", [MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)]
        )


def _assignment(numbers: list[int], user_data: bytes | None) -> bytes:
    given = [TopicPartitions(topic="orders", partitions=numbers)]
    return ASSIGNMENT.encode(ConsumerProtocolAssignment(assigned_partitions=given, user_data=user_data), 1)


def classic_group(broker: ConsumerHarness, *consumers: ClassicConsumer) -> None:
    """Let classic consumers form a stable group, and share the six partitions of orders."""
    first, *others = consumers
    first.join()
    first.member_id = first.joined.member_id
    first.sync({first.member_id: list(range(6))})
    for other in others:
        other.join()
        first.join()
        shares = [first.member_id, other.joined.member_id]
        share = {member_id: list(range(nth * 3, nth * 3 + 3)) for nth, member_id in enumerate(shares)}
        first.sync(share)
        other.sync()


def test_a_leave_request_removes_members_of_the_consumer_protocol_too(broker: ConsumerHarness) -> None:
    """An administrator who removes all members names those without an instance id by their member ids."""
    one = Consumer(broker, "one")
    broker.settle(one)
    assert broker.groups.classic.leave("app", [MemberIdentity(member_id="one")]) == [ErrorCode.NONE]
    assert not broker.group().members


def protocol(broker: ConsumerHarness) -> str:
    return broker.groups.coordinator.shard_of("app").groups["app"].type


@pytest.fixture
def broker() -> ConsumerHarness:
    return ConsumerHarness()


both = pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])


@both
def test_a_member_of_the_new_protocol_upgrades_a_group_that_goes_on(
    broker: ConsumerHarness, is_cooperative: bool
) -> None:
    old, other = (ClassicConsumer(broker, is_cooperative=is_cooperative) for _ in range(2))
    classic_group(broker, old, other)
    one = Consumer(broker, "one")
    one.beat()
    assert protocol(broker) == "consumer"
    assert one.partitions == [], "the classic members still own everything"
    for _ in range(10):
        if not any([old.beat(), other.beat(), one.beat()]):
            break
        owned = old.partitions + other.partitions + one.partitions
        assert is_consistent(broker.group())
        assert len(owned) == len(set(owned))
    owned = old.partitions + other.partitions + one.partitions
    assert sorted(owned) == [f"orders-{number}" for number in range(6)]
    assert len(old.partitions) == len(other.partitions) == len(one.partitions) == 2
    assert broker.group().state_name == "Stable"


@both
def test_the_last_member_of_the_new_protocol_downgrades_the_group(
    broker: ConsumerHarness, is_cooperative: bool
) -> None:
    old = ClassicConsumer(broker, is_cooperative=is_cooperative)
    classic_group(broker, old)
    one = Consumer(broker, "one")
    for _ in range(5):
        one.beat()
        old.beat()
    generation = old.generation
    one.leave()
    assert protocol(broker) == "classic"
    assert old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    old.join()
    old.sync({old.member_id: list(range(6))})
    assert len(old.partitions) == 6
    assert old.generation > generation
    broker.elect_again()
    assert protocol(broker) == "classic"


def test_a_dead_member_of_the_new_protocol_downgrades_the_group_too(broker: ConsumerHarness) -> None:
    old = ClassicConsumer(broker)
    classic_group(broker, old)
    one = Consumer(broker, "one")
    one.beat()
    for _ in range(10):
        broker.advance_ms(5_000)
        if protocol(broker) == "classic":
            break
        old.beat()
    assert protocol(broker) == "classic"
    assert old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_requests_that_are_parked_at_the_upgrade_are_answered(broker: ConsumerHarness) -> None:
    old, late = ClassicConsumer(broker), ClassicConsumer(broker)
    classic_group(broker, old)
    parked = late.join()
    assert parked.is_parked
    Consumer(broker, "one").beat()
    assert parked.error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_joins_a_consumer_group(broker: ConsumerHarness) -> None:
    one, late = Consumer(broker, "one"), ClassicConsumer(broker)
    broker.settle(one)
    for _ in range(5):
        late.beat()
        one.beat()
    assert len(one.partitions) == len(late.partitions) == 3
    late.leave()
    broker.settle(one)
    assert len(one.partitions) == 6


def test_a_cooperative_member_keeps_its_partitions_until_it_has_synced(broker: ConsumerHarness) -> None:
    one, old, two = Consumer(broker, "one"), ClassicConsumer(broker, is_cooperative=True), Consumer(broker, "two")
    broker.settle(one)
    for _ in range(5):
        old.beat()
        one.beat()
    two.beat()
    old.half_a_beat()
    two.beat()
    one.beat()
    two.beat()
    owned = one.partitions + old.partitions + two.partitions
    assert len(old.partitions) == 3
    assert len(owned) == len(set(owned))


def test_a_mixed_group_that_is_loaded_goes_on(broker: ConsumerHarness) -> None:
    one, late = Consumer(broker, "one"), ClassicConsumer(broker)
    broker.settle(one)
    for _ in range(5):
        late.beat()
        one.beat()
    broker.elect_again()
    assert late.heartbeat() == ErrorCode.NONE
    broker.advance_ms(SESSION_MS + 1)
    assert list(broker.group().members) == ["one"], "it has the session timeout of its own"


@pytest.mark.parametrize("has_synced", [False, True])
def test_a_classic_member_must_sync_and_join_in_time(broker: ConsumerHarness, has_synced: bool) -> None:
    one, late = Consumer(broker, "one"), ClassicConsumer(broker)
    broker.settle(one)
    late.join()
    if has_synced:
        late.sync()
        one.beat()
        one.beat()
        assert late.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    late.member_id, late.generation = late.joined.member_id, late.joined.generation
    for _ in range(5):
        broker.advance_ms(REBALANCE_MS // 4)
        late.heartbeat()
        one.beat()
    assert list(broker.group().members) == ["one"]


def test_a_static_member_changes_its_protocol_and_back(broker: ConsumerHarness) -> None:
    old = ClassicConsumer(broker, instance_id="i")
    classic_group(broker, old)
    one = Consumer(broker, "one", instance_id="i")
    broker.settle(one)
    assert (protocol(broker), len(one.partitions)) == ("consumer", 6)
    assert old.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    again = ClassicConsumer(broker, instance_id="i")
    again.join()
    assert protocol(broker) == "classic"
    again.member_id, again.generation = again.joined.member_id, again.joined.generation
    assert again.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_wrong_requests_of_classic_members_are_refused(broker: ConsumerHarness) -> None:
    one, late = Consumer(broker, "one"), ClassicConsumer(broker)
    broker.settle(one)
    late.beat()
    generation, late.generation = late.generation, 99
    assert late.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    with pytest.raises(CoordinatorError) as refused:
        broker.group().check_commit(late.member_id, None, 99, 8)
    assert refused.value.error_code == ErrorCode.ILLEGAL_GENERATION
    with pytest.raises(CoordinatorError) as refused:
        broker.group().check_txn_commit(late.member_id, None, 99)
    assert refused.value.error_code == ErrorCode.ILLEGAL_GENERATION
    broker.group().check_commit(late.member_id, None, generation, 2)
    broker.group().check_txn_commit(late.member_id, None, generation)
    late.member_id = "one"
    assert late.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    foreign = ClassicConsumer(broker)
    foreign.protocols = ["own"]
    assert foreign.join().error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_classic_member_of_a_consumer_group_that_syncs_in_another_epoch_is_refused(
    broker: ConsumerHarness, difference: int
) -> None:
    one, late = Consumer(broker, "one"), ClassicConsumer(broker)
    broker.settle(one)
    for _ in range(5):
        late.beat()
        one.beat()
    owned = late.partitions
    late.joined.response.generation_id += difference
    assert late.sync() == ErrorCode.ILLEGAL_GENERATION
    late.joined.response.generation_id -= difference
    assert late.sync() == ErrorCode.NONE
    assert late.partitions == owned


def test_without_upgrades_a_member_of_the_new_protocol_is_refused() -> None:
    """group.consumer.migration.policy is downgrade or disabled."""
    broker = ConsumerHarness(upgrades=False)
    classic_group(broker, ClassicConsumer(broker))
    assert broker.refusal(**Consumer(broker, "one").request()) == ErrorCode.GROUP_ID_NOT_FOUND
    assert protocol(broker) == "classic"


def test_without_downgrades_a_group_stays_with_the_consumer_protocol() -> None:
    broker = ConsumerHarness(downgrades=False)
    old, one = ClassicConsumer(broker), Consumer(broker, "one")
    classic_group(broker, old)
    for _ in range(5):
        one.beat()
        old.beat()
    one.leave()
    assert protocol(broker) == "consumer"
    for _ in range(5):
        old.beat()
    assert len(old.partitions) == 6


def test_a_group_that_is_no_group_of_consumers_is_not_upgraded(broker: ConsumerHarness) -> None:
    request = JoinGroupRequest(
        group_id="app",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    broker.groups.classic.join(context("classic", 3), request, Joined())
    assert broker.refusal(**Consumer(broker, "one").request()) == ErrorCode.GROUP_ID_NOT_FOUND
    assert protocol(broker) == "classic"


@pytest.mark.parametrize(("name", "becomes"), [("own", "classic"), ("sticky", "consumer")])
def test_a_group_with_an_assignor_of_its_own_is_not_upgraded(broker: ConsumerHarness, name: str, becomes: str) -> None:
    old = ClassicConsumer(broker)
    old.protocols = [name]
    old.join()
    old.member_id = old.joined.member_id
    old.sync({old.member_id: []}, user_data=b"secret")
    if becomes == "classic":
        assert broker.refusal(**Consumer(broker, "one").request()) == ErrorCode.GROUP_ID_NOT_FOUND
    else:
        Consumer(broker, "one").beat()
    assert protocol(broker) == becomes


class MixedRebalances(RuleBasedStateMachine):
    """Members of both protocols come, go and die in any order; one of the new protocol is always there."""

    @initialize()
    def begin(self) -> None:
        self.broker = ConsumerHarness()
        self.members: list[Consumer | ClassicConsumer] = [Consumer(self.broker, "m0")]
        self.members[0].beat()
        self.made = 0

    @rule(kind=st.sampled_from(["new", "eager", "cooperative"]))
    @precondition(lambda self: len(self.members) < 5)
    def join(self, kind: str) -> None:
        self.made += 1
        member: Consumer | ClassicConsumer = Consumer(self.broker, f"m{self.made}")
        if kind != "new":
            member = ClassicConsumer(self.broker, is_cooperative=kind == "cooperative")
            member.protocols = ["cooperative-sticky", "range"]
        self.members.append(member)
        member.beat()

    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.members)).beat()

    @rule(data=st.data())
    def half_a_beat(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.members))
        if isinstance(member, ClassicConsumer):
            member.half_a_beat()

    @rule(data=st.data(), dies=st.booleans())
    @precondition(lambda self: len(self.members) > 1)
    def go(self, data: st.DataObject, dies: bool) -> None:
        gone = data.draw(st.sampled_from(self.members[1:]))
        self.members.remove(gone)
        if not dies and gone.member_id in self.broker.group().members:
            gone.leave()
        for _ in range(12 * dies):
            self.broker.advance_ms(4_000)
            for member in self.members:
                member.beat()

    @rule(rounds=st.integers(1, 6))
    def all_beat(self, rounds: int) -> None:
        for _ in range(rounds):
            for member in self.members:
                member.beat()

    @rule()
    def elect(self) -> None:
        self.broker.elect_again()

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [partition for member in self.members for partition in member.partitions]
        assert len(owned) == len(set(owned))
        assert is_consistent(self.broker.group())

    def teardown(self) -> None:
        for _ in range(20):
            for member in self.members:
                member.beat()
        owned = [partition for member in self.members for partition in member.partitions]
        assert sorted(owned) == [f"orders-{number}" for number in range(6)]
        assert self.broker.group().state_name == "Stable"


TestMixedRebalances = MixedRebalances.TestCase
TestMixedRebalances.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
