"""The settings of the transaction coordinator, and the services that its parts share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.producer_ids import ProducerIds
from purgatorio.late import dataclass
from purgatorio.purgatory import Purgatory, Timer
from purgatorio.purgatory.clock import Clock

TRANSACTION_STATE_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": str(1024 * 1024),
}
"""The configs that the topic is created with, beside min.insync.replicas: Kafka's, but for its segments of 100 MiB.
Only closed segments are compacted, and these records are in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The settings of one broker's transaction coordinator, by Kafka's names; the defaults are Kafka's unless noted.

    Attributes:
        topic_partitions: transaction.state.log.num.partitions; it never changes once the topic exists.
        topic_replication_factor: transaction.state.log.replication.factor, at most the number of live brokers.
        topic_min_isr: transaction.state.log.min.isr, at most the topic's replicas.
        append_timeout_ms: the longest wait for the replicas when a transaction's state is written; a constant in Kafka.
        max_timeout_ms: transaction.max.timeout.ms: the longest timeout that a producer may ask for.
        expiration_ms: transactional.id.expiration.ms: how long an unused transactional id is kept.
        expiration_check_interval_ms: transaction.remove.expired.transaction.cleanup.interval.ms.
        max_ids: transaction.coordinator.max.ids, Purgatorio's own: the most transactional ids of one partition of the
            topic; further ones are refused.
        max_partitions: transaction.max.partitions, Purgatorio's own: the most partitions of one transaction.
        version: transaction.version, a feature's level in Kafka: 2 if clients may use KIP-890's protocol, else 1.
    """

    topic_partitions: int = 50
    topic_replication_factor: int = 3
    topic_min_isr: int = 2
    append_timeout_ms: int = 5_000
    max_timeout_ms: int = 900_000
    expiration_ms: int = 7 * 24 * 60 * 60_000
    expiration_check_interval_ms: int = 60 * 60_000
    max_ids: int = 10_000
    max_partitions: int = 5_000
    version: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionServices:
    """Services that the parts of one broker's transaction coordinator share.

    Attributes:
        clock: wall time of transactions, which outlives a coordinator.
        purgatory: "Transaction": requests that wait for the end of a transition.
        timeout_purgatory: "TransactionTimeout": the open transactions, until their deadline.
        work: takes the steps of what takes long.
    """

    config: TransactionConfig
    log: CoordinatorLog
    clock: Clock
    timer: Timer
    image: Callable[[], ClusterImage]
    producer_ids: ProducerIds
    ends: MarkerSender
    purgatory: Purgatory[Any]
    timeout_purgatory: Purgatory[Any]
    work: OwnWork
