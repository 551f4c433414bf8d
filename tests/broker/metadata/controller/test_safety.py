"""Invariants over any order of decisions: a replica that may lead exists, and has all acknowledged records.

A minimal model of brokers that act on the decisions. Each incarnation of a broker has a log, and acts on the image that
it saw last, which may be old. Leaders append, note their followers' log end offsets, commit, and propose ISRs; a
proposal is decided some time later. There is one partition.
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
    replacing,
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
    """Return the length of the longest common prefix of two logs."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@dataclass
class Replica:
    """The state of one incarnation of a broker.

    Attributes:
        image: the latest image that it has seen.
        end_offsets: as a leader, its followers' log end offsets, from their fetches in this leader epoch.
        is_decided: whether its proposal is decided; the leader learns it when it sees the next image.
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
        """Advance the high watermark to the lowest log end offset of the committed and the proposed ISR."""
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
        image: the committed image.
        replicas: the state of each broker's present incarnation.
        committed: the longest log prefix that a leader has committed.
        requests: fetch requests in flight, by the follower's broker id.
    """

    def __init__(self) -> None:
        image = ClusterImage(version=VERSION, cluster_id="c")
        self.last_lease = 0
        for broker_id in BROKERS:
            image = self._registered(image, broker_id)
        topic = NewTopic("orders", assignments=[(0, (1, 2, 3))], configs={"min.insync.replicas": "2"})
        self.image, _ = create_topics(image, [topic], settings=SETTINGS, rng=random.Random(1))
        self.replicas = {live.broker_id: Replica(live.incarnation, self.image) for live in self.image.brokers.values()}
        self.committed: Log = ()
        self.last_record = 0
        self.requests: dict[int, Request] = {}

    def _registered(self, image: ClusterImage, broker_id: int) -> ClusterImage:
        self.last_lease += 1
        image, _ = register_broker(image, broker_id, plaintext("host", 1), lease_id=self.last_lease, settings=SETTINGS)
        return image

    def acting(self, broker_id: int) -> Replica | None:
        """Return a broker's state if it is not fenced."""
        replica = self.replicas.get(broker_id)
        return replica if replica is not None and self.image.is_alive(replica.incarnation) else None

    def leading(self, broker_id: int) -> Replica | None:
        """Return a broker's state if it is not fenced and leads in the image that it has seen."""
        replica = self.acting(broker_id)
        return replica if replica is not None and replica.leads else None

    # --- what brokers do ---

    def leaders(self) -> list[Replica]:
        """Return the live brokers that lead in the image that they have seen; there may be more than one."""
        return [leader for broker_id in BROKERS if (leader := self.leading(broker_id)) is not None]

    def append(self, _: int) -> None:
        for leader in self.leaders():
            self.last_record += 1
            leader.log = (*leader.log, self.last_record)
            self._committed_by(leader)

    def see(self, broker_id: int) -> None:
        if (replica := self.acting(broker_id)) is not None:
            replica.see(self.image)
            self._committed_by(replica)

    def fetch(self, broker_id: int) -> None:
        self.ask(broker_id)
        self.arrive(broker_id)

    def ask(self, broker_id: int) -> None:
        """Let a follower send a fetch request, which may arrive much later."""
        replica = self.acting(broker_id)
        if replica is not None and broker_id in replica.state.replicas and not replica.leads:
            state = replica.state
            self.requests[broker_id] = Request(replica.incarnation, state.leader, state.leader_epoch, replica.log)

    def arrive(self, broker_id: int) -> None:
        """Let a fetch request arrive: the leader notes the follower's log end offset, the follower takes its log."""
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
        """Let each leader propose an ISR without this broker."""
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
        """Decide the leaders' proposals; the leaders have yet to see the result."""
        for leader in self.leaders():
            if leader.proposal is not None and not leader.is_decided:
                self.image, _codes = change_in_sync_sets(
                    self.image, leader.incarnation, [leader.proposal], settings=SETTINGS
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
        if broker_id in self.image.brokers:
            self.image, _ = fence_broker(self.image, self.image.brokers[broker_id].lease_id, settings=SETTINGS)

    def resume(self, broker_id: int) -> None:
        known = self.image.brokers.get(broker_id)
        if known is not None:
            self.last_lease += 1
            self.image, resumed = resume_broker(
                self.image, broker_id, known.broker_epoch, self.last_lease, settings=SETTINGS
            )
            assert resumed
            self.see(broker_id)  # a broker sees the image before it acts under its new lease

    def restart(self, broker_id: int) -> None:
        """Register a broker as a new incarnation, with an empty log."""
        if self.image.live_broker(broker_id) is None:
            self.image = self._registered(self.image, broker_id)
            self.replicas[broker_id] = Replica(self.image.brokers[broker_id].incarnation, self.image)

    def leave(self, broker_id: int) -> None:
        if broker_id in self.image.brokers:
            epoch = self.image.brokers[broker_id].broker_epoch
            self.image, left = unregister_broker(self.image, broker_id, epoch, settings=SETTINGS)
            assert left
            del self.replicas[broker_id]

    # --- what operators do ---

    def prefer(self, _: int) -> None:
        self.image, _results = elect_leaders(self.image, [TP], ElectionType.PREFERRED, settings=SETTINGS)

    def elect_uncleanly(self, _: int) -> None:
        self.image, (result,) = elect_leaders(self.image, [TP], ElectionType.UNCLEAN, settings=SETTINGS)
        if result.error is ErrorCode.NONE:
            elected = self.replicas[state_of(self.image).leader]
            self.committed = elected.log[: in_common(elected.log, self.committed)]
            for replica in self.replicas.values():
                replica.high_watermark = min(replica.high_watermark, in_common(replica.log, self.committed))

    def move(self, broker_id: int) -> None:
        """Reassign the partition to the three brokers other than this one."""
        ring = BROKERS * 2
        target = ring[broker_id : broker_id + 3]
        self.image, _ = reassign_partitions(self.image, [Reassignment(*TP, target)], settings=SETTINGS)

    def shrink(self, broker_id: int) -> None:
        """Reassign the partition to two brokers."""
        target = (broker_id, BROKERS[broker_id % len(BROKERS)])
        self.image, _ = reassign_partitions(self.image, [Reassignment(*TP, target)], settings=SETTINGS)

    def cancel_move(self, _: int) -> None:
        self.image, _results = reassign_partitions(self.image, [Reassignment(*TP, None)], settings=SETTINGS)

    def set_min_in_sync(self, number: int) -> None:
        """Set min.insync.replicas to 1 or 2."""
        wanted = {"min.insync.replicas": str((number + 1) // 2)}
        self.image, _ = alter_topic_configs(self.image, "orders", replacing(wanted), settings=SETTINGS)

    # --- invariants ---

    def calm(self) -> None:
        """Let all brokers see the committed image and catch up."""
        for action in ("see", "append", "fetch", "decide", "see", "fetch", "decide", "see"):
            for broker_id in BROKERS:
                self.step(action, broker_id)

    def step(self, action: str, broker_id: int) -> None:
        if action == "calm":
            self.calm()
            return
        before = self.image
        getattr(self, action)(broker_id)
        after = self.image
        assert after.version == VERSION
        self._check_shape(after)
        self._check_epochs(state_of(before), state_of(after))
        if action not in ("restart", "leave", "elect_uncleanly"):
            assert not may_lead(before) or may_lead(after), "no replica may lead any more, though no log was lost"
        for incarnation in may_lead(after):
            replica = self.replicas[incarnation.broker_id]
            assert replica.incarnation == incarnation, f"{incarnation} has ended and may lead"
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
    """Return the replicas that may be elected cleanly, now or when they come back."""
    state = state_of(image)
    return (*state.isr, *state.elr)


WEIGHTS = {
    **dict.fromkeys(("fetch", "resume"), 4),
    **dict.fromkeys(("append", "ask", "arrive", "see", "decide", "calm", "fence", "drop", "prefer", "restart"), 2),
    **dict.fromkeys(("leave", "elect_uncleanly", "move", "shrink", "cancel_move", "set_min_in_sync"), 1),
}
STEPS = [action for action, weight in WEIGHTS.items() for _ in range(weight)]


@example([("fence", 3), ("fence", 2), ("fence", 1), ("set_min_in_sync", 1), ("resume", 2)])
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
def test_only_an_unclean_election_loses_acknowledged_records(steps: list[tuple[str, int]]) -> None:
    world = World()
    for action, broker_id in steps:
        world.step(action, broker_id)
