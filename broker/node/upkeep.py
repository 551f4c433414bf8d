"""The periodic work of one broker: retention, cleaning, in-sync checks, elections, records of operations."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from purgatorio.broker.config.dynamic import DynamicBrokerConfig
from purgatorio.broker.delays.recorder import LINGER_MS, DelayRecorder
from purgatorio.broker.metadata.broker_lifecycle import BrokerLifecycleManager
from purgatorio.broker.metadata.controller import ElectionType, PreferredElections, TopicSettings, elect_leaders
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.time.long_work import OwnWork, Steps
from purgatorio.purgatory.clock import Clock


class Upkeep:
    """The periodic work of one broker.

    Args:
        lifecycle: decides whether the broker may request elections.
    """

    def __init__(
        self,
        dynamic: DynamicBrokerConfig,
        *,
        clock: Clock,
        replicas: ReplicaManager,
        recorder: DelayRecorder,
        store: MetadataStore,
        lifecycle: BrokerLifecycleManager,
        topics: TopicSettings,
        work: OwnWork,
    ) -> None:
        self._dynamic = dynamic
        self._clock = clock
        self._replicas = replicas
        self._recorder = recorder
        self._store = store
        self._lifecycle = lifecycle
        self._topics = topics
        self._work = work
        self._preferred_elections = PreferredElections(replicas.broker_id)

    def start(self, spawn: Callable[[Coroutine[Any, Any, None], str], None]) -> None:
        """Start the periodic tasks."""
        config, replicas = self._dynamic.static, self._replicas

        def every(interval_ms: int | Callable[[], int], steps: Callable[[], Steps], name: str) -> None:
            spawn(self._work.repeat(self._clock, interval_ms, steps), name)

        every(config.log_retention_check_interval_ms, replicas.retention_steps, "retention")
        if config.log_cleaner_enable:
            every(lambda: self._dynamic.current.log_cleaner_backoff_ms, replicas.compaction_steps, "cleaner")
        every(LINGER_MS, self._recorder.steps, "delay recorder")
        max_lag_ms = config.replica_lag_time_max_ms
        every(max(1, max_lag_ms // 2), lambda: replicas.laggard_steps(max_lag_ms), "in-sync")
        if config.auto_leader_rebalance_enable:
            every(config.leader_imbalance_check_interval_ms, self._elect_preferred_leaders, "preferred leader")

    def _elect_preferred_leaders(self) -> Steps:
        """Submit elections of the partitions whose preferred leader is this broker and that another one leads."""
        wanted = self._preferred_elections.wanted(self._store.image)
        if wanted and self._lifecycle.has_lease():
            self._store.submit(
                lambda image: elect_leaders(image, wanted, ElectionType.PREFERRED, settings=self._topics),
                lambda _: None,
            )
        yield 0
