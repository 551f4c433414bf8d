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
from purgatorio.broker.share.share_metrics import ShareObserver
from purgatorio.broker.share.state.services import ShareStateServices
from purgatorio.broker.share.state.share_states import ShareStates
from purgatorio.broker.share.state_client import StateClient
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.broker.txn.config import TransactionConfig
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.marker_writer import MarkerWriter
from purgatorio.broker.txn.overview import TransactionNumbers, numbers
from purgatorio.broker.txn.partition_verifier import PartitionVerifier
from purgatorio.broker.txn.producer_ids import ProducerIds
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transactions import Transactions
from purgatorio.purgatory.clock import Clock


class Coordinators:
    """The coordinators of one broker.

    Args:
        store: has the image, and grants producer ids.
        topics: the defaults of topics.
        parked: the purgatories.
        observer: counts the requests of share groups.
        work: takes the steps of what takes long.

    Attributes:
        share_settings: the settings of share groups, for their coordinator and for leaders.
        marker_writer: writes the end markers of transactions to the partitions that this broker leads.
        shares: the states of share partitions that this broker coordinates.
        led_shares: what members of share groups fetch from this broker.
        dead_letters: copies what share groups give up of this broker's partitions.
        persister: how this broker's leaders and its group coordinator reach such states, wherever they are.
    """

    def __init__(
        self,
        config: BrokerConfig,
        replicas: ReplicaManager,
        *,
        clock: Clock,
        store: MetadataStore,
        topics: TopicSettings,
        parked: Purgatories,
        rng: random.Random,
        ask: AskBroker,
        observer: ShareObserver,
        work: OwnWork,
    ) -> None:
        self.share_settings = ShareGroupSettings(store, share_settings(config))
        self._calls = BrokerCalls(replicas.broker_id, store=store, ask=ask, purgatories=parked)
        self.shares, self.persister = _shares(
            config,
            replicas,
            clock=clock,
            store=store,
            topics=topics,
            parked=parked,
            rng=rng,
            calls=self._calls,
            work=work,
        )
        group_services = _group_services(
            config,
            replicas,
            clock=clock,
            store=store,
            parked=parked,
            rng=rng,
            calls=self._calls,
            share_settings=self.share_settings,
            persister=self.persister,
            work=work,
        )
        self.groups = Groups(group_services, replicas)
        settings = transaction_config(config)
        self.marker_writer = MarkerWriter(
            replicas, clock, timeout_ms=settings.append_timeout_ms, end_offsets=self.groups.txn_offsets.end
        )
        self._marker_sender = MarkerSender(self._calls, self.marker_writer.write)
        transaction_services = _transaction_services(
            settings, replicas, clock=clock, store=store, parked=parked, ends=self._marker_sender, work=work
        )
        self.transactions = Transactions(transaction_services, replicas)
        self._verifier = replicas.guard.verify = PartitionVerifier(self._calls, self.transactions.partitions)
        self.dead_letters = _dead_letters(
            config,
            replicas,
            clock=clock,
            store=store,
            topics=topics,
            rng=rng,
            calls=self._calls,
            settings=self.share_settings,
        )
        self.led_shares = self._build_led_shares(config, replicas, clock, store, parked, observer, work)

    def _build_led_shares(
        self,
        config: BrokerConfig,
        replicas: ReplicaManager,
        clock: Clock,
        store: MetadataStore,
        parked: Purgatories,
        observer: ShareObserver,
        work: OwnWork,
    ) -> LedShares:
        return LedShares(
            replicas,
            image=lambda: store.image,
            settings=self.share_settings,
            persister=self.persister,
            clock=clock,
            purgatory=parked.of(SHARE_FETCH),
            lock_purgatory=partial(parked.of, ACQUISITION_LOCK),
            dead_letters=self.dead_letters,
            max_sessions=config.group_share_max_share_sessions,
            observer=observer,
            work=work,
        )

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
        self._calls.stop()
        self.dead_letters.stop()

    async def run(self) -> None:
        """Load, unload and clean in turns of the loop."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.groups.run())
            tasks.create_task(self._calls.run())
            tasks.create_task(self.transactions.run())
            tasks.create_task(self.shares.run())
            tasks.create_task(self.dead_letters.run())


def _group_services(
    config: BrokerConfig,
    replicas: ReplicaManager,
    *,
    clock: Clock,
    store: MetadataStore,
    parked: Purgatories,
    rng: random.Random,
    calls: BrokerCalls,
    share_settings: ShareGroupSettings,
    persister: StatePersister,
    work: OwnWork,
) -> GroupServices:
    """Return what the group coordinator needs of the broker."""
    return GroupServices(
        config=group_config(config),
        log=CoordinatorLog(replicas, clock, parked.timer, config.offsets_commit_timeout_ms),
        clock=clock,
        timer=parked.timer,
        rng=rng,
        image=lambda: store.image,
        rebalance_purgatory=parked.of(REBALANCE),
        heartbeat_purgatory=parked.of(HEARTBEAT),
        transaction_purgatory=parked.of(TRANSACTION),
        share_purgatory=partial(parked.of, SHARE_GROUP),
        share_settings=share_settings,
        persister=persister,
        end_offsets=EndOffsets(calls, replicas).find,
        work=work,
    )


def _transaction_services(
    settings: TransactionConfig,
    replicas: ReplicaManager,
    *,
    clock: Clock,
    store: MetadataStore,
    parked: Purgatories,
    ends: MarkerSender,
    work: OwnWork,
) -> TransactionServices:
    """Return what the transaction coordinator needs of the broker."""
    return TransactionServices(
        config=settings,
        log=CoordinatorLog(replicas, clock, parked.timer, settings.append_timeout_ms),
        clock=clock,
        timer=parked.timer,
        image=lambda: store.image,
        producer_ids=ProducerIds(store),
        ends=ends,
        purgatory=parked.of(TRANSACTION),
        timeout_purgatory=parked.of(TRANSACTION_TIMEOUT),
        work=work,
    )


def _shares(
    config: BrokerConfig,
    replicas: ReplicaManager,
    *,
    clock: Clock,
    store: MetadataStore,
    topics: TopicSettings,
    parked: Purgatories,
    rng: random.Random,
    calls: BrokerCalls,
    work: OwnWork,
) -> tuple[ShareStates, StateClient]:
    """Return the share coordinator, and the client that calls it or those of other brokers."""
    settings = share_state_config(config)
    log = CoordinatorLog(replicas, clock, parked.timer, settings.write_timeout_ms)
    services = ShareStateServices(config=settings, log=log, clock=clock, image=lambda: store.image, work=work)
    shares = ShareStates(services, replicas)
    topic = share_state_topic(settings)

    def create_topic(done: Callable[[], None]) -> None:
        store.submit(
            lambda image: decided(image, topic, settings=topics, rng=rng), lambda _: done(), lambda error: done()
        )

    client = StateClient(
        calls,
        shares.coordinator,
        image=lambda: store.image,
        create_topic=create_topic,
        partitions=settings.topic_partitions,
        retries=retry_settings(config),
    )
    return shares, client


def _dead_letters(
    config: BrokerConfig,
    replicas: ReplicaManager,
    *,
    clock: Clock,
    store: MetadataStore,
    topics: TopicSettings,
    rng: random.Random,
    calls: BrokerCalls,
    settings: ShareGroupSettings,
) -> DeadLetterQueue:
    """Return what copies dead letters."""

    def create_topic(name: str, done: Callable[[str | None], None]) -> None:
        new = NewTopic(name, configs=AUTO_CREATED_CONFIGS)
        store.submit(
            lambda image: create_topics(image, [new], settings=topics, rng=rng),
            lambda results: done(why_not_created(results)),
            lambda error: done(str(error)),
        )

    return DeadLetterQueue(
        calls,
        replicas,
        image=lambda: store.image,
        settings=settings.of,
        rules=dead_letter_rules(config, topics.log, lambda: store.image),
        create_topic=create_topic,
        clock=clock,
    )
