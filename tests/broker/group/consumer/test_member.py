"""How members move to a target assignment: step by step, and together, whatever happens between their heartbeats."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatorio.broker.group.consumer.member import CurrentAssignment, MemberState, Owners, reconcile
from purgatorio.broker.group.modern.partitions import Partitions, each
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness, is_consistent

A = b"a" * 16


def of(*numbers: int) -> Partitions:
    return {A: frozenset(numbers)} if numbers else {}


STABLE = CurrentAssignment(1, 0, MemberState.STABLE, of(0, 1, 2))


def step(
    current: CurrentAssignment,
    target: Partitions,
    reported: Partitions | None = None,
    *,
    epoch: int = 2,
    others: Partitions | None = None,
) -> CurrentAssignment:
    owners = Owners()
    owners.move("other", {}, others or {})
    owners.move("m", {}, current.held)
    return reconcile("m", current, target_epoch=epoch, target=target, reported=reported, owners=owners)


def test_a_stable_member_in_the_target_s_epoch_stays() -> None:
    assert step(STABLE, of(5), epoch=1) is STABLE


def test_a_member_first_gives_up_and_stays_in_its_epoch() -> None:
    assert step(STABLE, of(0, 5)) == CurrentAssignment(1, 0, MemberState.UNREVOKED, of(0), of(1, 2))


def test_a_member_that_does_not_own_what_it_must_give_up_goes_on_at_once() -> None:
    assert step(STABLE, of(0, 5), of(0)) == CurrentAssignment(2, 1, MemberState.STABLE, of(0, 5))


def test_a_member_that_still_owns_a_partition_that_it_must_give_up_waits() -> None:
    unrevoked = step(STABLE, of(0, 5))
    assert step(unrevoked, of(0, 5)) is unrevoked
    assert step(unrevoked, of(0, 5), of(0, 2)) is unrevoked
    assert step(unrevoked, of(0, 5), of(0)) == CurrentAssignment(2, 1, MemberState.STABLE, of(0, 5))


def test_a_member_waits_for_partitions_that_others_hold() -> None:
    waits = step(STABLE, of(0, 1, 2, 3, 4), others=of(4))
    assert waits == CurrentAssignment(2, 1, MemberState.UNRELEASED, of(0, 1, 2, 3))
    assert step(waits, of(0, 1, 2, 3, 4), others=of(4)) is waits
    assert step(waits, of(0, 1, 2, 3, 4)) == replace(waits, state=MemberState.STABLE, assigned=of(0, 1, 2, 3, 4))


def test_a_target_that_changes_while_a_member_gives_up_is_met_in_the_end() -> None:
    unrevoked = step(STABLE, of(0, 5))
    assert step(unrevoked, of(7), of(0), epoch=3) == CurrentAssignment(1, 0, MemberState.UNREVOKED, of(), of(0))
    assert step(unrevoked, of(0, 1), of(0), epoch=3) == CurrentAssignment(3, 1, MemberState.STABLE, of(0, 1))


def test_a_member_may_keep_what_it_gives_up_until_it_says_so() -> None:
    waits = step(STABLE, of(3), of(0, 1, 2))
    assert (waits.state, waits.held) == (MemberState.UNREVOKED, of(0, 1, 2))


class Rebalances(RuleBasedStateMachine):
    """Members come, go, lose answers, are slow to give up partitions; topics grow; the coordinator changes."""

    @initialize()
    def begin(self) -> None:
        self.broker = ConsumerHarness()
        self.partitions = {"orders": 6, "bills": 2}
        self.consumers: list[Consumer] = []
        self.made = 0

    @rule(topics=st.sampled_from([["orders"], ["bills"], ["orders", "bills"]]), is_static=st.booleans())
    @precondition(lambda self: len(self.consumers) < 5)
    def join(self, topics: list[str], is_static: bool) -> None:
        self.made += 1
        fields = {"instance_id": f"i{self.made}"} if is_static else {}
        consumer = Consumer(self.broker, f"m{self.made}", topics, **fields)
        self.consumers.append(consumer)
        consumer.beat()

    @rule(data=st.data(), is_answered=st.booleans())
    @precondition(lambda self: self.consumers)
    def beat(self, data: st.DataObject, is_answered: bool) -> None:
        data.draw(st.sampled_from(self.consumers)).beat(is_answered=is_answered)

    @rule(data=st.data())
    @precondition(lambda self: self.consumers)
    def beat_without_a_report(self, data: st.DataObject) -> None:
        """A client is slow to give up partitions: it sends heartbeats meanwhile."""
        consumer = data.draw(st.sampled_from(self.consumers))
        if consumer.epoch > 0 and consumer.member_id in self.broker.group().members:
            told, consumer.told_owned = consumer.told_owned, consumer.owned
            consumer.beat()
            consumer.told_owned = told

    @rule(data=st.data())
    @precondition(lambda self: self.consumers)
    def leave(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        if consumer.member_id in self.broker.group().members:
            consumer.leave()

    @rule(data=st.data())
    @precondition(lambda self: self.consumers)
    def die(self, data: st.DataObject) -> None:
        """A member is silent; the others are not."""
        dead = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(dead)
        for _ in range(3):
            self.broker.advance_ms(20_000)
            for consumer in self.consumers:
                consumer.beat()

    @rule(data=st.data())
    @precondition(lambda self: self.consumers)
    def restart(self, data: st.DataObject) -> None:
        """A static member comes back with another id; a dynamic one joins anew with its own."""
        consumer = data.draw(st.sampled_from(self.consumers))
        if consumer.member_id not in self.broker.group().members or consumer.epoch == 0:
            return
        if consumer.instance:
            consumer.leave(-2)
            self.made += 1
            consumer.member_id = f"m{self.made}"
        consumer.epoch, consumer.owned, consumer.told_owned = 0, {}, None
        consumer.beat()

    @rule(topic=st.sampled_from(["orders", "bills"]))
    def grow(self, topic: str) -> None:
        if self.partitions[topic] < 9:
            self.partitions[topic] += 1
            self.broker.create(**self.partitions)

    @rule()
    def elect(self) -> None:
        self.broker.elect_again()

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [partition for consumer in self.consumers for partition in consumer.partitions]
        assert len(owned) == len(set(owned))
        if "app" in self.broker.groups.coordinator.shard_of("app").groups:
            assert is_consistent(self.broker.group())

    def teardown(self) -> None:
        """Once all members are heard regularly, they own everything that they subscribe to."""
        for _ in range(5):
            self.broker.advance_ms(20_000)
            for consumer in self.consumers:
                consumer.beat()
        self.broker.settle(*self.consumers)
        subscribed = {topic for consumer in self.consumers for topic in consumer.subscription["subscribed_topic_names"]}
        wanted = sorted(f"{topic}-{number}" for topic in subscribed for number in range(self.partitions[topic]))
        assert sorted(partition for consumer in self.consumers for partition in consumer.partitions) == wanted
        if self.consumers:
            group = self.broker.group()
            assert group.state_name == "Stable"
            assert {member_id: list(each(member.current.assigned)) for member_id, member in group.members.items()} == {
                consumer.member_id: list(each(consumer.owned)) for consumer in self.consumers
            }


TestRebalances = Rebalances.TestCase
TestRebalances.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
