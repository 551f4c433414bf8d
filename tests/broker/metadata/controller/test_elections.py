"""Who leads, who could, and what never happens whatever is decided in whatever order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.metadata.controller import (
    ElectionType,
    InSyncProposal,
    NewTopic,
    Reassignment,
    TopicSettings,
    alter_topic_configs,
    change_in_sync_sets,
    create_topics,
    elect_leaders,
    fence_broker,
    preferred_elections,
    reassign_partitions,
    register_broker,
    resume_broker,
    unregister_broker,
)
from broker.metadata.image import NO_LEADER, BrokerLife, ClusterImage, PartitionState
from protocol.errors import ErrorCode

SETTINGS = TopicSettings()
TP = ("orders", 0)


def partition(image: ClusterImage) -> PartitionState:
    state = image.partition(*TP)
    assert state is not None
    return state


def with_orders(image: ClusterImage, replicas: tuple[int, ...] = (1, 2, 3), min_in_sync: int = 2) -> ClusterImage:
    new = NewTopic("orders", assignments=[(0, replicas)], configs={"min.insync.replicas": str(min_in_sync)})
    image, (result,) = create_topics(image, [new], settings=SETTINGS, rng=random.Random(1))
    assert result.topic is not None, result.message
    return image


@pytest.fixture
def orders(three: ClusterImage) -> ClusterImage:
    """orders-0 on brokers 1, 2, 3, led by 1, min.insync.replicas=2."""
    return with_orders(three)


def fence(image: ClusterImage, *broker_ids: int) -> ClusterImage:
    for broker_id in broker_ids:
        image, _ = fence_broker(image, image.brokers[broker_id].lease_id, settings=SETTINGS)
    return image


def resume(image: ClusterImage, broker_id: int, lease_id: int = 77) -> ClusterImage:
    epoch = image.brokers[broker_id].broker_epoch
    return resume_broker(image, broker_id, epoch, lease_id, settings=SETTINGS)[0]


def restart(image: ClusterImage, broker_id: int) -> ClusterImage:
    """It comes back empty."""
    return register_broker(image, broker_id, "localhost", 1, lease_id=88, settings=SETTINGS)[0]


def propose(image: ClusterImage, *isr: int) -> tuple[ClusterImage, ErrorCode]:
    state = partition(image)
    lives = tuple(image.brokers[broker_id].life for broker_id in isr)
    leader = image.brokers[state.leader].life
    topic_id = image.topics["orders"].topic_id
    proposal = InSyncProposal(topic_id, *TP, state.leader_epoch, state.partition_epoch, lives)
    image, (code,) = change_in_sync_sets(image, leader, [proposal], settings=SETTINGS)
    return image, code


def elect(image: ClusterImage, election: ElectionType) -> tuple[ClusterImage, ErrorCode]:
    image, (result,) = elect_leaders(image, [TP], election, settings=SETTINGS)
    return image, result.error


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


# --- proposals ---


def stale(image: ClusterImage, **change: object) -> ErrorCode:
    """What a proposal is told that rests on something that is not so."""
    state = partition(image)
    leader = change.pop("proposer", image.brokers[1].life)
    lives = tuple(image.brokers[broker_id].life for broker_id in (1, 2))
    right = InSyncProposal(image.topics["orders"].topic_id, *TP, state.leader_epoch, state.partition_epoch, lives)
    assert isinstance(leader, BrokerLife)
    after, (code,) = change_in_sync_sets(image, leader, [replace(right, **change)], settings=SETTINGS)  # type: ignore[arg-type]
    assert code is ErrorCode.NONE or after is image
    return code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"proposer": BrokerLife(1, 99)}, ErrorCode.STALE_BROKER_EPOCH),
        ({"proposer": BrokerLife(2, 2)}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"topic_id": b"?" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 5}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 5}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"isr": ()}, ErrorCode.INVALID_REQUEST),
        ({"isr": (BrokerLife(1, 1), BrokerLife(9, 9))}, ErrorCode.INVALID_REQUEST),
        ({"isr": (BrokerLife(1, 1), BrokerLife(2, 99))}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_holds_only_if_all_that_it_rests_on_does(
    orders: ClusterImage, change: dict[str, object], code: ErrorCode
) -> None:
    assert stale(orders, **change) is code


def test_a_fenced_replica_does_not_join_and_a_fenced_leader_changes_nothing(orders: ClusterImage) -> None:
    assert stale(fence(orders, 2)) is ErrorCode.INELIGIBLE_REPLICA
    assert stale(fence(orders, 1)) is ErrorCode.STALE_BROKER_EPOCH


# --- reassignments ---


def move(image: ClusterImage, *replicas: int) -> tuple[ClusterImage, ErrorCode]:
    image, (result,) = reassign_partitions(image, [Reassignment(*TP, replicas or None)], settings=SETTINGS)
    return image, result.error


@pytest.fixture
def five(make_image: object) -> ClusterImage:
    return with_orders(make_image(1, 2, 3, 4, 5))  # type: ignore[operator]


def test_a_partition_that_moves_has_both_until_the_new_replicas_are_in_sync(five: ClusterImage) -> None:
    image, code = move(five, 4, 5, 3)
    state = partition(image)
    assert code is ErrorCode.NONE
    assert (state.replicas, state.adding, state.removing) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    assert (state.leader, state.isr_ids) == (1, (3, 1, 2))
    image, _ = propose(image, 1, 2, 3, 4)
    assert partition(image).adding == (4, 5)
    image, _ = propose(image, 1, 2, 3, 4, 5)
    state = partition(image)
    assert (state.replicas, state.adding, state.removing, state.isr_ids) == ((4, 5, 3), (), (), (4, 5, 3))
    assert (state.leader, state.leader_epoch) == (4, 1)


def test_a_move_can_be_called_off_and_changed(five: ClusterImage) -> None:
    assert move(five)[1] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    image, _ = move(five, 4, 5, 3)
    image, _ = move(image, 5, 2, 3)
    assert (partition(image).adding, partition(image).removing) == ((5,), (1,))
    image, code = move(image)
    state = partition(image)
    assert code is ErrorCode.NONE
    assert (set(state.replicas), state.adding, state.removing, state.leader) == ({1, 2, 3}, (), (), 1)


def test_a_replica_that_goes_starts_a_leader_epoch_so_that_it_cannot_be_mistaken_when_it_comes_back(
    five: ClusterImage,
) -> None:
    image, _ = move(five, 1, 2)
    state = partition(image)
    assert (state.replicas, state.leader, state.leader_epoch) == ((1, 2), 1, 1)
    image, _ = move(image, 1, 2, 3)
    assert (partition(image).adding, partition(image).leader_epoch) == ((3,), 1), "one that comes does not"


def test_another_order_of_the_same_replicas_is_done_at_once(five: ClusterImage) -> None:
    image, _ = move(five, 3, 1, 2)
    state = partition(image)
    assert (state.replicas, state.adding, state.removing, state.leader) == ((3, 1, 2), (), (), 1)
    assert state.isr_ids == (3, 1, 2)


@pytest.mark.parametrize("replicas", [(1, 9), (1, 1), (1,)], ids=["unknown", "twice", "fewer than min.insync.replicas"])
def test_a_move_that_cannot_be_is_refused_and_changes_nothing(five: ClusterImage, replicas: tuple[int, ...]) -> None:
    assert move(five, *replicas) == (five, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_kip_860_another_number_of_replicas_is_refused_if_the_client_insists(five: ClusterImage) -> None:
    image, (result,) = reassign_partitions(
        five, [Reassignment(*TP, (1, 2))], settings=SETTINGS, allow_replication_factor_change=False
    )
    assert (image, result.error) == (five, ErrorCode.INVALID_REPLICATION_FACTOR)


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
