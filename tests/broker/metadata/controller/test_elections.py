"""Who leads, who could, and what never happens whatever is decided in whatever order."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.metadata.controller import (
    ElectionType,
    alter_topic_configs,
    elect_leaders,
    preferred_elections,
    register_broker,
    unregister_broker,
)
from broker.metadata.image import NO_LEADER, BrokerLife, ClusterImage, PartitionState
from protocol.errors import ErrorCode
from tests.broker.metadata.controller.harness import (
    SETTINGS,
    TP,
    elect,
    fence,
    move,
    partition,
    propose,
    restart,
    resume,
    with_orders,
)


def test_the_next_in_sync_replica_leads_in_the_order_of_the_replicas(three: ClusterImage) -> None:
    state = partition(fence(with_orders(three, (2, 3, 1)), 2))
    assert (state.leader, state.leader_epoch, state.isr_ids) == (3, 1, (3, 1))


def test_nobody_is_eligible_while_enough_are_in_sync(orders: ClusterImage) -> None:
    assert partition(fence(orders, 3)).elr == ()


def test_who_leaves_a_set_that_is_too_small_stays_eligible_and_leads_when_the_last_one_dies(
    orders: ClusterImage,
) -> None:
    image = fence(orders, 3, 2)
    assert (partition(image).isr_ids, partition(image).elr_ids) == ((1,), (2,))
    image = resume(image, 2)
    assert (partition(image).isr_ids, partition(image).elr_ids) == ((1,), (2,)), "it lives, and has to catch up"
    image = fence(image, 1)
    state = partition(image)
    assert (state.leader, state.isr_ids, state.elr_ids) == (2, (2,), (1,))


def test_an_eligible_replica_that_restarts_is_empty_and_not_eligible_any_more(orders: ClusterImage) -> None:
    image = restart(fence(orders, 3, 2), 2)
    assert partition(image).elr == ()
    assert partition(fence(image, 1)).leader == NO_LEADER


def test_nobody_is_eligible_any_more_once_enough_are_in_sync_again(orders: ClusterImage) -> None:
    image = resume(resume(fence(orders, 3, 2), 3), 2)
    image, code = propose(image, 1, 3)
    assert code is ErrorCode.NONE
    assert (partition(image).isr_ids, partition(image).elr) == ((1, 3), ())


def test_a_smaller_min_insync_replicas_ends_eligibility(orders: ClusterImage) -> None:
    image = fence(orders, 3, 2)
    assert partition(image).elr_ids == (2,)
    image, _ = alter_topic_configs(image, "orders", {"min.insync.replicas": "1"}, settings=SETTINGS)
    assert partition(image).elr == ()


def test_an_eligible_replica_that_is_enough_by_itself_ends_the_eligibility_of_the_others(orders: ClusterImage) -> None:
    image = fence(orders, 3, 2, 1)
    assert partition(image).elr_ids == (1, 2)
    image, _ = alter_topic_configs(image, "orders", {"min.insync.replicas": "1"}, settings=SETTINGS)
    image = resume(image, 2)
    assert (partition(image).isr_ids, partition(image).elr) == ((2,), ())
    image = resume(fence(image, 2), 1)
    assert partition(image).leader == NO_LEADER


def test_the_preferred_leader_leads_again_when_asked_for(orders: ClusterImage) -> None:
    image = resume(fence(orders, 1), 1)
    assert partition(image).leader == 2
    assert elect(image, ElectionType.PREFERRED)[1] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert preferred_elections(image, 1) == []
    image, _ = propose(image, 2, 3, 1)
    assert preferred_elections(image, 1) == [TP]
    image, code = elect(image, ElectionType.PREFERRED)
    assert (code, partition(image).leader, partition(image).leader_epoch) == (ErrorCode.NONE, 1, 2)
    assert elect(image, ElectionType.PREFERRED) == (image, ErrorCode.ELECTION_NOT_NEEDED)


def test_an_unclean_election_is_for_partitions_without_a_leader_and_takes_whoever_lives(orders: ClusterImage) -> None:
    assert elect(orders, ElectionType.UNCLEAN) == (orders, ErrorCode.ELECTION_NOT_NEEDED)
    image = restart(restart(fence(orders, 3, 2, 1), 1), 3)
    assert partition(image).leader == NO_LEADER
    image, code = elect(image, ElectionType.UNCLEAN)
    state = partition(image)
    assert (code, state.leader, state.isr_ids, state.elr) == (ErrorCode.NONE, 1, (1,), ())
    nobody = fence(orders, 1, 2, 3)
    assert elect(nobody, ElectionType.UNCLEAN) == (nobody, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def test_an_election_for_a_partition_that_is_not_there_is_refused_and_others_are_held(orders: ClusterImage) -> None:
    image = resume(fence(orders, 1), 1)
    image, _ = propose(image, 2, 3, 1)
    asked = [("orders", 7), TP, TP, ("nowhere", 0)]
    image, results = elect_leaders(image, asked, ElectionType.PREFERRED, settings=SETTINGS)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [result.error for result in results] == [unknown, ErrorCode.NONE, unknown]
    assert partition(image).leader == 1


# --- whatever happens ---


@dataclass
class World:
    """An image, and which record each life has: a model of what the leaders do.

    `held` maps a life to the number of records that it has. The high watermark moves when every life in sync has more,
    and there are min.insync.replicas of them.
    """

    image: ClusterImage
    held: dict[BrokerLife, int] = field(default_factory=dict)
    committed: int = 0
    lease_id: int = 100

    def next_lease(self) -> int:
        self.lease_id += 1
        return self.lease_id

    def step(self, what: str, broker_id: int) -> None:
        before = partition(self.image)
        getattr(self, what)(broker_id)
        after = partition(self.image)
        self.check(before, after)

    def append(self, broker_id: int) -> None:
        state = partition(self.image)
        if state.leader >= 0:
            life = self.image.brokers[state.leader].life
            self.held[life] = self.held.get(life, 0) + 1
            self.commit()

    def fetch(self, broker_id: int) -> None:
        """A replica has all that its leader has; if it is not in sync, it is proposed to be."""
        state, registered = partition(self.image), self.image.live_broker(broker_id)
        if state.leader < 0 or registered is None or broker_id not in state.replicas:
            return
        leader = self.image.brokers[state.leader].life
        self.held[registered.life] = self.held.get(leader, 0)
        self.commit()
        if registered.life not in state.isr:
            self.image, _ = propose(self.image, *state.isr_ids, broker_id)
            self.commit()

    def lag(self, broker_id: int) -> None:
        state = partition(self.image)
        if state.leader >= 0 and broker_id in state.isr_ids and broker_id != state.leader:
            self.image, _ = propose(self.image, *(each for each in state.isr_ids if each != broker_id))
            self.commit()

    def fence(self, broker_id: int) -> None:
        if broker_id in self.image.brokers:
            self.image = fence(self.image, broker_id)

    def resume(self, broker_id: int) -> None:
        if broker_id in self.image.brokers and self.image.brokers[broker_id].fenced:
            self.image = resume(self.image, broker_id, self.next_lease())

    def die(self, broker_id: int) -> None:
        """Its memory is lost, and the next life registers."""
        self.fence(broker_id)
        if self.image.live_broker(broker_id) is None:
            lease = self.next_lease()
            self.image, _ = register_broker(self.image, broker_id, "h", 1, lease_id=lease, settings=SETTINGS)

    def leave(self, broker_id: int) -> None:
        if broker_id in self.image.brokers:
            epoch = self.image.brokers[broker_id].broker_epoch
            self.image, _ = unregister_broker(self.image, broker_id, epoch, settings=SETTINGS)
            self.die(broker_id)

    def prefer(self, broker_id: int) -> None:
        self.image, _ = elect(self.image, ElectionType.PREFERRED)

    def reassign(self, broker_id: int) -> None:
        others = [each for each in (1, 2, 3, 4) if each != broker_id]
        self.image, _ = move(self.image, *others)

    def demand(self, broker_id: int) -> None:
        wanted = {"min.insync.replicas": str(1 + broker_id % 2)}
        self.image, _ = alter_topic_configs(self.image, "orders", wanted, settings=SETTINGS)
        self.commit()

    @property
    def min_in_sync(self) -> int:
        return int(self.image.topics["orders"].configs["min.insync.replicas"])

    def commit(self) -> None:
        state = partition(self.image)
        if state.leader >= 0 and len(state.isr) >= self.min_in_sync:
            self.committed = max(self.committed, min(self.held.get(life, 0) for life in state.isr))

    def check(self, before: PartitionState, after: PartitionState) -> None:
        lives = {life.broker_id: life for life in after.isr}
        assert after.leader == NO_LEADER or (after.leader in lives and self.image.is_alive(lives[after.leader]))
        assert set(after.isr_ids) <= set(after.replicas)
        assert not set(after.isr) & set(after.elr)
        assert not after.elr or len(after.isr) < self.min_in_sync
        assert after.partition_epoch >= before.partition_epoch
        went = set(before.replicas) - set(after.replicas)
        assert (after.leader_epoch > before.leader_epoch) == (after.leader != before.leader or bool(went))
        for life in (*after.isr, *after.elr):
            assert self.held.get(life, 0) >= self.committed, f"{life} may lead and lacks what was acknowledged"


STEPS = ["append", "fetch", "lag", "fence", "resume", "die", "leave", "prefer", "reassign", "demand"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 4)), max_size=60))
def test_whoever_may_lead_has_all_that_was_acknowledged(steps: list[tuple[str, int]]) -> None:
    image = ClusterImage(version=0, cluster_id="c")
    for broker_id in (1, 2, 3, 4):
        image, _ = register_broker(image, broker_id, "h", 1, lease_id=broker_id, settings=SETTINGS)
    world = World(with_orders(image))
    for what, broker_id in steps:
        world.step(what, broker_id)
