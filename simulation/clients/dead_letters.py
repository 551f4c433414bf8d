"""The dead-letter topic of a simulated share group (KIP-1191): its configs, and what is in it when all is quiet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from purgatorio.broker.coordinator.share_settings import (
    AUTO_OFFSET_RESET,
    COPY_DEAD_LETTERS,
    DEAD_LETTER_TOPIC,
    ISOLATION_LEVEL,
    READ_COMMITTED,
    ResetTo,
)
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic
from purgatorio.broker.share.dead_letters.destination import GROUP_ENABLE
from purgatorio.protocol.dead_letter import DeadLetterHeaders
from purgatorio.protocol.records import iter_batches, iter_records
from purgatorio.simulation.clients.plans import SharePlan
from purgatorio.simulation.history.history import History
from purgatorio.simulation.history.share_events import DeadLetter
from purgatorio.simulation.world.cluster import SimulatedCluster

TOPIC: Final = "dlq.orders"


def dead_letter_topics(plan: SharePlan | None, factor: int, min_insync_replicas: int) -> list[NewTopic]:
    """Return the dead-letter topic of a share group, if it has one."""
    if plan is None or not plan.dead_letter_partitions:
        return []
    in_sync = factor if plan.letters_want_all else min_insync_replicas
    configs = {GROUP_ENABLE: "true", "min.insync.replicas": str(in_sync)}
    return [NewTopic(TOPIC, plan.dead_letter_partitions, factor, configs=configs)]


def group_configs(plan: SharePlan) -> dict[str, str]:
    """Return the configs of a share group."""
    configs = {AUTO_OFFSET_RESET: ResetTo.EARLIEST.value}
    if plan.committed:
        configs[ISOLATION_LEVEL] = READ_COMMITTED
    if plan.dead_letter_partitions:
        configs |= {DEAD_LETTER_TOPIC: TOPIC, COPY_DEAD_LETTERS: "true"}
    return configs


def record_dead_letters(cluster: SimulatedCluster, plan: SharePlan | None, history: History, now_ms: int) -> None:
    """Record the dead letters that the leaders of a share group's dead-letter topic have now, below high watermarks."""
    for partition in range(0 if plan is None else plan.dead_letter_partitions):
        for told in _letters(cluster, TopicPartition(TOPIC, partition)):
            name = str(TopicPartition(told.topic, told.partition))
            history.record(DeadLetter(now_ms, told.group_id, name, told.offset, told.message or ""))


def _letters(cluster: SimulatedCluster, tp: TopicPartition) -> Iterator[DeadLetterHeaders]:
    replica = cluster.brokers[cluster.partitions[tp].leader].replicas.partitions[tp]
    log, offset = replica.log, replica.log.log_start_offset
    while offset < replica.high_watermark:
        read = log.read(offset, max_bytes=1, end_offset=replica.high_watermark)
        for header, batch in (each for part in read.parts for each in iter_batches(part)):
            offset = header.last_offset + 1
            for record in iter_records(batch):
                told = DeadLetterHeaders.decode(record.headers)
                assert told is not None, f"offset {record.offset} of {tp} is no dead letter"
                yield told
