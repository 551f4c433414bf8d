"""The groups of broker 1 over its replicas; the test sets the time and the image, and plays the followers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.coordinator.end_offsets import EndOffset, Found
from purgatorio.broker.coordinator.share_settings import ShareGroupSettings, ShareSettings
from purgatorio.broker.group.config import GroupConfig
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import Topic
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import Purgatory, Timer
from tests.broker.group.fake_persister import FakePersister
from tests.broker.replica.harness import Harness, topic
from tests.broker.time.by_hand import HandWork, turns_of

PARTITION = TopicPartition(OFFSETS_TOPIC, 0)
"""The only partition of the topic, which holds all groups."""


def offsets_topic(replicas: tuple[int, ...] = (1,), leader: int = 1, leader_epoch: int = 0, **configs: str) -> Topic:
    """Return ``__consumer_offsets`` with one partition."""
    return topic(
        OFFSETS_TOPIC,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch,
        replicas=replicas,
        topic_id=OFFSETS_TOPIC.encode()[:16],
        cleanup_policy="compact",
        **configs,
    )


class GroupHarness(Harness):
    """Broker 1 with its groups.

    Args:
        replicas: the replicas of ``__consumer_offsets``; with the default an append is committed at once.
        config: settings of the coordinator that differ from the defaults.
    """

    def __init__(self, replicas: tuple[int, ...] = (1,), **config: int) -> None:
        super().__init__()
        timers = [Timer(self.clock.now_ms) for _ in range(5)]
        self.timers += timers
        self.rebalance_purgatory: Purgatory = Purgatory("Rebalance", timers[0], actions=self.actions)
        self.heartbeat_purgatory: Purgatory = Purgatory("Heartbeat", timers[1], actions=self.actions)
        self.transaction_purgatory: Purgatory = Purgatory("Transaction", timers[3], actions=self.actions)
        self.share_purgatory: Purgatory = Purgatory("ShareGroup", timers[4], actions=self.actions)
        for purgatory in (
            self.rebalance_purgatory,
            self.heartbeat_purgatory,
            self.transaction_purgatory,
            self.share_purgatory,
        ):
            purgatory.on_finished = self.finished.append
        self.persister = FakePersister()
        self.share_settings = ShareGroupSettings(self, ShareSettings())
        self.ends: dict[TopicPartition, EndOffset] = {}
        settings = GroupConfig(offsets_topic_partitions=1, **config)
        self.group_work = HandWork()
        services = GroupServices(
            config=settings,
            log=CoordinatorLog(self.replicas, self.clock, timers[2], settings.offsets_commit_timeout_ms),
            clock=self.clock,
            timer=timers[2],
            rng=random.Random(0),
            image=lambda: self.image,
            rebalance_purgatory=self.rebalance_purgatory,
            heartbeat_purgatory=self.heartbeat_purgatory,
            transaction_purgatory=self.transaction_purgatory,
            share_purgatory=lambda: self.share_purgatory,
            share_settings=self.share_settings,
            persister=self.persister,
            end_offsets=self._find_ends,
            work=self.group_work.own,
        )
        self.verified: ErrorCode | None = ErrorCode.NONE
        self.asked: list[tuple[TopicPartition, ProducerTransaction, Callable[[ErrorCode], None]]] = []
        self.replicas.guard.verify = self._verify
        self.groups = Groups(services, self.replicas)
        self.set_topics(offsets_topic(replicas))

    def _find_ends(self, partitions: Iterable[TopicPartition], found: Found) -> None:
        found({tp: self.ends[tp] for tp in partitions})

    def _verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        done: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Stand for the transaction coordinator: answer with `verified`; the test answers if that is None."""
        (tp,) = partitions
        transaction = ProducerTransaction(transactional_id, producer_id, producer_epoch, add)
        self.asked.append((tp, transaction, lambda code: done({tp: code})))
        if self.verified is not None:
            done({tp: self.verified})

    def elect(self, leader: int, leader_epoch: int, replicas: tuple[int, ...] = (1, 2)) -> None:
        """Make a broker the leader of the partition of ``__consumer_offsets``, in a new leader epoch."""
        self.set_topics(offsets_topic(replicas, leader, leader_epoch))

    def work(self) -> int:
        """Load and unload the groups that wait for it; returns the number of steps."""
        return turns_of(self.groups.coordinator.steps())

    def clean(self) -> int:
        """Delete the groups and offsets that wait for it; returns the number of steps."""
        return turns_of(self.groups.cleaner.steps())
