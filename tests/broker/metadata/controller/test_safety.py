"""Whatever is decided in whatever order: who may lead has everything that was acknowledged, and somebody may.

A model of what the brokers do with the decisions, as small as it can be. Each life of a broker has a log, and acts on
the image that it has seen last, which may be old. Leaders append, count what their followers have, commit, and propose;
a proposal is decided some time later. There is one partition.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from purgatorio.broker.metadata.controller import (
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
    reassign_partitions,
    register_broker,
    resume_broker,
    unregister_broker,
)
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState
from purgatorio.protocol.errors import ErrorCode
from tests.endpoints import plaintext

SETTINGS = TopicSettings()
TP = ("orders", 0)
BROKERS = (1, 2, 3, 4)
VERSION = 7

Log = tuple[int, ...]


def in_common(one: Log, other: Log) -> int:
    """How many records two logs begin with that are the same."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@dataclass
class Replica:
    """What one life of a broker has and knows.

    Attributes:
        image: the latest that it has seen.
        end_offsets: where it leads, how much its followers have, as they told it in this leader epoch.
        is_decided: whether its proposal has been, which it does not know before it sees it.
    """

    incarnation: BrokerIncarnation
    image: ClusterImage
    log: Log = ()
    high_watermark: int = 0
    epoch_start: int = 0
    end_offsets: dict[BrokerIncarnation, int] = field(default_factory=dict)
    proposal: InSyncProposal | None = None
    is_decided: bool = False

    @property
    def state(self) -> PartitionState:
        return state_of(self.image)

    @property
    def leads(self) -> bool:
        return self.state.leader == self.incarnation.broker_id and self.incarnation in self.state.isr

    def see(self, image: ClusterImage) -> None:
        before, self.image = self.state, image
        if self.incarnation.broker_id not in self.state.replicas:
            self.log, self.high_watermark = (), 0
        if self.state.partition_epoch > before.partition_epoch or self.is_decided:
            self.proposal, self.is_decided = None, False
        if self.state.leader_epoch > before.leader_epoch:
            self.epoch_start, self.end_offsets = len(self.log), {}

    def commit(self) -> None:
        """The high watermark moves to what all have that are in sync, or that are proposed to be."""
        waits_for = {*self.state.isr, *(self.proposal.isr if self.proposal is not None else ())} - {self.incarnation}
        if self.leads and len(self.state.isr) >= min_in_sync(self.image):
            reached = min([len(self.log), *(self.end_offsets.get(incarnation, 0) for incarnation in waits_for)])
            self.high_watermark = max(self.high_watermark, reached)


class Request(NamedTuple):
    """A follower's fetch."""

    incarnation: BrokerIncarnation
    leader: int
    leader_epoch: int
    log: Log


def state_of(image: ClusterImage) -> PartitionState:
    state = image.partition(*TP)
    assert state is not None
    return state


def min_in_sync(image: ClusterImage) -> int:
    return min(int(image.topics["orders"].configs["min.insync.replicas"]), len(state_of(image).replicas))


class World:
    """Four brokers, three of which have the partition.

    Attributes:
        truth: the latest image.
        replicas: what the present life of each broker has.
        committed: the longest run of records that any leader has committed.
        requests: fetches under way, by the broker that asks.
    """

    def __init__(self) -> None:
        image = ClusterImage(version=VERSION, cluster_id="c")
        self.last_lease = 0
        for broker_id in BROKERS:
            image = self._registered(image, broker_id)
        topic = NewTopic("orders", assignments=[(0, (1, 2, 3))], configs={"min.insync.replicas": "2"})
        self.truth, _ = create_topics(image, [topic], settings=SETTINGS, rng=random.Random(1))
        self.replicas = {live.broker_id: Replica(live.incarnation, self.truth) for live in self.truth.brokers.values()}
        self.committed: Log = ()
        self.last_record = 0
        self.requests: dict[int, Request] = {}

    def _registered(self, image: ClusterImage, broker_id: int) -> ClusterImage:
        self.last_lease += 1
        image, _ = register_broker(image, broker_id, plaintext("host", 1), lease_id=self.last_lease, settings=SETTINGS)
        return image

    def acting(self, broker_id: int) -> Replica | None:
        """A broker that has its lease."""
        replica = self.replicas.get(broker_id)
        return replica if replica is not None and self.truth.is_alive(replica.incarnation) else None

    def leading(self, broker_id: int) -> Replica | None:
        """A broker that believes that it leads."""
        replica = self.acting(broker_id)
        return replica if replica is not None and replica.leads else None

    # --- what brokers do ---

    def leaders(self) -> list[Replica]:
        """The brokers that have a lease and believe that they lead; there may be more than one."""
        return [leader for broker_id in BROKERS if (leader := self.leading(broker_id)) is not None]

    def append(self, _: int) -> None:
        for leader in self.leaders():
            self.last_record += 1
            leader.log = (*leader.log, self.last_record)
            self._committed_by(leader)

    def see(self, broker_id: int) -> None:
        if (replica := self.acting(broker_id)) is not None:
            replica.see(self.truth)
            self._committed_by(replica)

    def fetch(self, broker_id: int) -> None:
        self.ask(broker_id)
        self.arrive(broker_id)

    def ask(self, broker_id: int) -> None:
        """A follower asks for what it lacks; the request may be under way for long."""
        replica = self.acting(broker_id)
        if replica is not None and broker_id in replica.state.replicas and not replica.leads:
            state = replica.state
            self.requests[broker_id] = Request(replica.incarnation, state.leader, state.leader_epoch, replica.log)

    def arrive(self, broker_id: int) -> None:
        """The leader notes how much the follower has, and sends the rest; what the leader does not have is dropped."""
        request = self.requests.pop(broker_id, None)
        leader = self.leading(request.leader) if request is not None else None
        if request is None or leader is None or request.leader_epoch != leader.state.leader_epoch:
            return
        known = leader.image.brokers.get(broker_id)
        if known is None or known.incarnation != request.incarnation or broker_id not in leader.state.replicas:
            return
        has = in_common(request.log, leader.log)
        leader.end_offsets[request.incarnation] = has
        self._committed_by(leader)
        follower = self.acting(broker_id)
        if follower is not None and follower.state.leader_epoch == request.leader_epoch and follower.log == request.log:
            follower.log = leader.log
        if request.incarnation not in leader.state.isr and has >= max(leader.high_watermark, leader.epoch_start):
            self._propose(leader, (*leader.state.isr, request.incarnation))

    def drop(self, broker_id: int) -> None:
        """Whoever leads finds that a broker lags."""
        for leader in self.leaders():
            kept = tuple(incarnation for incarnation in leader.state.isr if incarnation.broker_id != broker_id)
            if broker_id in leader.state.isr_ids and broker_id != leader.incarnation.broker_id:
                self._propose(leader, kept)

    @staticmethod
    def _propose(leader: Replica, isr: tuple[BrokerIncarnation, ...]) -> None:
        if leader.proposal is None and all(leader.image.is_alive(incarnation) for incarnation in isr):
            state, topic_id = leader.state, leader.image.topics["orders"].topic_id
            leader.proposal = InSyncProposal(topic_id, *TP, state.leader_epoch, state.partition_epoch, isr)

    def decide(self, _: int) -> None:
        """What leaders have proposed is decided; they are yet to see it."""
        for leader in self.leaders():
            if leader.proposal is not None and not leader.is_decided:
                self.truth, _codes = change_in_sync_sets(
                    self.truth, leader.incarnation, [leader.proposal], settings=SETTINGS
                )
                leader.is_decided = True

    def _committed_by(self, leader: Replica) -> None:
        leader.commit()
        log = leader.log[: leader.high_watermark]
        if leader.leads:
            assert in_common(log, self.committed) == min(len(log), len(self.committed)), "two histories"
            self.committed = max(self.committed, log, key=len)

    # --- what happens to brokers ---

    def fence(self, broker_id: int) -> None:
        if broker_id in self.truth.brokers:
            self.truth, _ = fence_broker(self.truth, self.truth.brokers[broker_id].lease_id, settings=SETTINGS)

    def resume(self, broker_id: int) -> None:
        known = self.truth.brokers.get(broker_id)
        if known is not None:
            self.last_lease += 1
            self.truth, resumed = resume_broker(
                self.truth, broker_id, known.broker_epoch, self.last_lease, settings=SETTINGS
            )
            assert resumed
            self.see(broker_id)  # it holds its lease only from then on

    def restart(self, broker_id: int) -> None:
        """It comes back, and has nothing."""
        if self.truth.live_broker(broker_id) is None:
            self.truth = self._registered(self.truth, broker_id)
            self.replicas[broker_id] = Replica(self.truth.brokers[broker_id].incarnation, self.truth)

    def leave(self, broker_id: int) -> None:
        if broker_id in self.truth.brokers:
            epoch = self.truth.brokers[broker_id].broker_epoch
            self.truth, left = unregister_broker(self.truth, broker_id, epoch, settings=SETTINGS)
            assert left
            del self.replicas[broker_id]

    # --- what operators do ---

    def prefer(self, _: int) -> None:
        self.truth, _results = elect_leaders(self.truth, [TP], ElectionType.PREFERRED, settings=SETTINGS)

    def elect_uncleanly(self, _: int) -> None:
        self.truth, (result,) = elect_leaders(self.truth, [TP], ElectionType.UNCLEAN, settings=SETTINGS)
        if result.error is ErrorCode.NONE:
            heir = self.replicas[state_of(self.truth).leader]
            self.committed = heir.log[: in_common(heir.log, self.committed)]
            for replica in self.replicas.values():
                replica.high_watermark = min(replica.high_watermark, in_common(replica.log, self.committed))

    def move(self, broker_id: int) -> None:
        """Away from one broker, to the three that follow it."""
        ring = BROKERS * 2
        target = ring[broker_id : broker_id + 3]
        self.truth, _ = reassign_partitions(self.truth, [Reassignment(*TP, target)], settings=SETTINGS)

    def shrink(self, broker_id: int) -> None:
        """To two brokers."""
        target = (broker_id, BROKERS[broker_id % len(BROKERS)])
        self.truth, _ = reassign_partitions(self.truth, [Reassignment(*TP, target)], settings=SETTINGS)

    def call_off(self, _: int) -> None:
        self.truth, _results = reassign_partitions(self.truth, [Reassignment(*TP, None)], settings=SETTINGS)

    def demand(self, number: int) -> None:
        """Another min.insync.replicas."""
        wanted = {"min.insync.replicas": str((number + 1) // 2)}
        self.truth, _ = alter_topic_configs(self.truth, "orders", wanted, settings=SETTINGS)

    # --- what is always so ---

    def calm(self) -> None:
        """Nothing happens for a while: everybody sees what is true, and catches up."""
        for what in ("see", "append", "fetch", "decide", "see", "fetch", "decide", "see"):
            for broker_id in BROKERS:
                self.step(what, broker_id)

    def step(self, what: str, broker_id: int) -> None:
        if what == "calm":
            self.calm()
            return
        before = self.truth
        getattr(self, what)(broker_id)
        after = self.truth
        assert after.version == VERSION
        self._check_shape(after)
        self._check_epochs(state_of(before), state_of(after))
        if what not in ("restart", "leave", "elect_uncleanly"):
            assert not may_lead(before) or may_lead(after), "nobody may lead any more, though no memory was lost"
        for incarnation in may_lead(after):
            replica = self.replicas[incarnation.broker_id]
            assert replica.incarnation == incarnation, f"{incarnation} is over and may lead"
            lacks = self.committed[in_common(replica.log, self.committed) :]
            assert not lacks, f"{incarnation} may lead and lacks {lacks}, which are committed"

    @staticmethod
    def _check_shape(image: ClusterImage) -> None:
        state = state_of(image)
        ids = (*state.isr_ids, *state.elr_ids)
        assert len(set(ids)) == len(ids)
        assert set(ids) <= set(state.replicas)
        assert state.isr_ids == tuple(each for each in state.replicas if each in state.isr_ids)
        assert all(image.is_alive(incarnation) for incarnation in state.isr)
        assert state.leader in state.isr_ids or (state.leader == NO_LEADER and not state.isr)
        assert not state.elr or len(state.isr) < min_in_sync(image)
        assert {*state.adding, *state.removing} <= set(state.replicas)
        assert not {*state.adding} & {*state.removing}

    @staticmethod
    def _check_epochs(before: PartitionState, after: PartitionState) -> None:
        led_anew = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
        assert after.leader_epoch - before.leader_epoch == led_anew
        assert after.partition_epoch - before.partition_epoch == (
            after != replace(before, partition_epoch=after.partition_epoch)
        )


def may_lead(image: ClusterImage) -> tuple[BrokerIncarnation, ...]:
    """Who may be elected cleanly, now or when it comes back."""
    state = state_of(image)
    return (*state.isr, *state.elr)


WEIGHTS = {
    **dict.fromkeys(("fetch", "resume"), 4),
    **dict.fromkeys(("append", "ask", "arrive", "see", "decide", "calm", "fence", "drop", "prefer", "restart"), 2),
    **dict.fromkeys(("leave", "elect_uncleanly", "move", "shrink", "call_off", "demand"), 1),
}
STEPS = [what for what, weight in WEIGHTS.items() for _ in range(weight)]


@example([("fence", 3), ("fence", 2), ("fence", 1), ("demand", 1), ("resume", 2)])
@example(
    [
        ("fence", 1),
        ("leave", 2),
        ("fence", 3),
        ("restart", 2),
        ("shrink", 4),
        ("elect_uncleanly", 4),
        ("shrink", 2),
    ]
)
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(BROKERS)), max_size=100))
def test_nothing_that_was_acknowledged_is_lost_but_by_an_unclean_election(steps: list[tuple[str, int]]) -> None:
    world = World()
    for what, broker_id in steps:
        world.step(what, broker_id)
