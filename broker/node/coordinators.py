"""The coordinators of one broker: of groups, transactions and share groups' states, connected with the leaders.

None of them knows another one: each gets the others' parts as callables.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from purgatorio.broker.api.coordinator_topics import decided, share_state_topic
from purgatorio.broker.causes.kinds import (
    ACQUISITION_LOCK,
    HEARTBEAT,
    REBALANCE,
    SHARE_FETCH,
    SHARE_GROUP,
    TRANSACTION,
    TRANSACTION_TIMEOUT,
)
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.by_room import (
    dead_letter_rules,
    group_config,
    retry_settings,
    share_settings,
    share_state_config,
    transaction_config,
)
from purgatorio.broker.coordinator.broker_calls import AskBroker, BrokerCalls
from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.coordinator.end_offsets import EndOffsets
from purgatorio.broker.coordinator.share_settings import ShareGroupSettings
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.services import GroupServices, StatePersister
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.share.dead_letters.destination import AUTO_CREATED_CONFIGS, why_not_created
from purgatorio.broker.share.dead_letters.queue import DeadLetterQueue
from purgatorio.broker.share.led_shares import LedShares
from purgatorio.broker.share.services import ShareLeaderServices
from purgatorio.broker.share.share_metrics import ShareObserver
from purgatorio.broker.share.state.services import ShareStateServices
from purgatorio.broker.share.state.share_states import ShareStates
from purgatorio.broker.share.state_client import StateClient
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.marker_writer import MarkerWriter
from purgatorio.broker.txn.overview import TransactionNumbers, numbers
from purgatorio.broker.txn.partition_verifier import PartitionVerifier
from purgatorio.broker.txn.producer_ids import ProducerIds
from purgatorio.broker.txn.services import TransactionConfig, TransactionServices
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.late import dataclass
from purgatorio.purgatory.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorParts:
    """The parts that the coordinators of one broker use.

    Attributes:
        store: has the image, and grants producer ids.
        topics: the defaults of topics.
        rng: chooses the replicas of topics that coordinators create, and ids.
        work: takes the steps of long works.
    """

    config: BrokerConfig
    replicas: ReplicaManager
    clock: Clock
    store: MetadataStore
    topics: TopicSettings
    purgatories: Purgatories
    rng: random.Random
    work: OwnWork

    def log(self, timeout_ms: int) -> CoordinatorLog:
        """Return what a coordinator writes its records by."""
        return CoordinatorLog(self.replicas, self.clock, self.purgatories.timer, timeout_ms)

    def image(self) -> ClusterImage:
        """Return the newest image."""
        return self.store.image


class Coordinators:
    """The coordinators of one broker.

    Args:
        parts: what they are made of.
        ask: sends requests to other brokers.
        observer: counts the requests of share groups.

    Attributes:
        share_settings: the settings of share groups, for their coordinator and for leaders.
        marker_writer: writes the end markers of transactions to the partitions that this broker leads.
        shares: the states of share partitions that this broker coordinates.
        led_shares: what members of share groups fetch from this broker.
        dead_letters: copies what share groups give up of this broker's partitions.
        persister: how this broker's leaders and its group coordinator reach such states, wherever they are.
    """

    def __init__(self, parts: CoordinatorParts, ask: AskBroker, observer: ShareObserver) -> None:
        config, replicas, clock = parts.config, parts.replicas, parts.clock
        self.share_settings = ShareGroupSettings(parts.store, share_settings(config))
        self._calls = BrokerCalls(
            replicas.broker_id, store=parts.store, ask=ask, purgatories=parts.purgatories, work=parts.work
        )
        self.shares, self.persister = _shares(parts, self._calls)
        self.groups = Groups(_group_services(parts, self._calls, self.share_settings, self.persister), replicas)
        settings = transaction_config(config)
        self.marker_writer = MarkerWriter(
            replicas, clock, timeout_ms=settings.append_timeout_ms, end_offsets=self.groups.txn_offsets.end
        )
        self._marker_sender = MarkerSender(self._calls, self.marker_writer.write)
        self.transactions = Transactions(_transaction_services(parts, settings, self._marker_sender), replicas)
        self._verifier = replicas.guard.verify = PartitionVerifier(self._calls, self.transactions.partitions)
        self.dead_letters = _dead_letters(parts, self._calls, self.share_settings)
        leader_services = ShareLeaderServices(
            image=parts.image,
            settings=self.share_settings,
            persister=self.persister,
            clock=clock,
            purgatory=parts.purgatories.of(SHARE_FETCH),
            lock_purgatory=partial(parts.purgatories.of, ACQUISITION_LOCK),
            dead_letters=self.dead_letters,
            max_sessions=config.group_share_max_share_sessions,
            observer=observer,
            work=parts.work,
        )
        self.led_shares = LedShares(leader_services, replicas)

    @property
    def transaction_numbers(self) -> TransactionNumbers:
        """How many transactions there are, for observers."""
        return numbers(self.transactions, self._marker_sender, self._verifier)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Make changed configs take effect."""
        self.share_settings.defaults = share_settings(config)

    def image_changed(self, image: ClusterImage) -> None:
        """Follow what has become of topics and leaders."""
        self.groups.image_changed(image)
        self._calls.image_changed(image)

    def stop(self) -> None:
        """Wait for no other coordinator from now on: the broker stops."""
        self.dead_letters.stop()
        self._calls.stop()

    async def run(self) -> None:
        """Do from time to time what is due."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.groups.run())
            tasks.create_task(self.transactions.run())
            tasks.create_task(self.shares.run())


def _group_services(
    parts: CoordinatorParts, calls: BrokerCalls, share_settings: ShareGroupSettings, persister: StatePersister
) -> GroupServices:
    """Return what the group coordinator needs of the broker."""
    config, purgatories = parts.config, parts.purgatories
    return GroupServices(
        config=group_config(config),
        log=parts.log(config.offsets_commit_timeout_ms),
        clock=parts.clock,
        timer=purgatories.timer,
        rng=parts.rng,
        image=parts.image,
        rebalance_purgatory=purgatories.of(REBALANCE),
        heartbeat_purgatory=purgatories.of(HEARTBEAT),
        transaction_purgatory=purgatories.of(TRANSACTION),
        share_purgatory=partial(purgatories.of, SHARE_GROUP),
        share_settings=share_settings,
        persister=persister,
        end_offsets=EndOffsets(calls, parts.replicas).find,
        work=parts.work,
    )


def _transaction_services(
    parts: CoordinatorParts, settings: TransactionConfig, ends: MarkerSender
) -> TransactionServices:
    """Return what the transaction coordinator needs of the broker."""
    return TransactionServices(
        config=settings,
        log=parts.log(settings.append_timeout_ms),
        clock=parts.clock,
        timer=parts.purgatories.timer,
        image=parts.image,
        producer_ids=ProducerIds(parts.store),
        ends=ends,
        purgatory=parts.purgatories.of(TRANSACTION),
        timeout_purgatory=parts.purgatories.of(TRANSACTION_TIMEOUT),
        work=parts.work,
    )


def _shares(parts: CoordinatorParts, calls: BrokerCalls) -> tuple[ShareStates, StateClient]:
    """Return the share coordinator, and the client that calls it or those of other brokers."""
    settings = share_state_config(parts.config)
    services = ShareStateServices(
        config=settings,
        log=parts.log(settings.write_timeout_ms),
        clock=parts.clock,
        image=parts.image,
        work=parts.work,
    )
    shares = ShareStates(services, parts.replicas)
    topic = share_state_topic(settings)

    def create_topic(done: Callable[[], None]) -> None:
        parts.store.submit(
            lambda image: decided(image, topic, settings=parts.topics, rng=parts.rng),
            lambda _: done(),
            lambda error: done(),
        )

    client = StateClient(
        calls,
        shares.coordinator,
        image=parts.image,
        create_topic=create_topic,
        partitions=settings.topic_partitions,
        retries=retry_settings(parts.config),
    )
    return shares, client


def _dead_letters(parts: CoordinatorParts, calls: BrokerCalls, settings: ShareGroupSettings) -> DeadLetterQueue:
    """Return what copies dead letters."""

    def create_topic(name: str, done: Callable[[str | None], None]) -> None:
        new = NewTopic(name, configs=AUTO_CREATED_CONFIGS)
        parts.store.submit(
            lambda image: create_topics(image, [new], settings=parts.topics, rng=parts.rng),
            lambda results: done(why_not_created(results)),
            lambda error: done(str(error)),
        )

    return DeadLetterQueue(
        calls,
        parts.replicas,
        image=parts.image,
        settings=settings.of,
        rules=dead_letter_rules(parts.config, parts.topics.log, parts.image),
        create_topic=create_topic,
        clock=parts.clock,
        work=parts.work,
    )
