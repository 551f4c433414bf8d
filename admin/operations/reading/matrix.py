"""Reads partitions × replicas for the page: a row of some dozen bytes each, up to a thousand partitions.

The state has everything about a few partitions; this has the little that a row of some pixels shows of many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.state import most_telling
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition

ROWS: Final = 1_000
CALM, NO_LAG_KNOWN = "", -1
_ORDER: Final = {"offline": 0, "waits": 1, "unstable": 1, CALM: 2}

Row = list[Any]


def read_matrix(cluster: BrokerCluster, image: ClusterImage) -> Answer:
    """Return `rows` of partitions, those that are offline first, then those that wait, then others, each by name.

    A row is a list: topic, partition, leader (-1: none), leader epoch, state, replicas. The state is "offline", "waits"
    (records are not committed), "unstable" (an open transaction holds the last stable offset), or "". A replica is its
    broker, the records that it lacks by what the leader knows (-1: unknown here), and whether it is in sync.
    """
    running = {broker.broker_id: broker for broker in cluster.brokers}
    rows = [_row(tp, image, running) for tp in most_telling(running, image, ROWS)]
    return {
        "cluster_id": cluster.cluster_id,
        "now_ms": cluster.clock.now_ms(),
        "partition_count": image.partition_count,
        "rows": sorted(rows, key=_rank),
    }


def _row(tp: TopicPartition, image: ClusterImage, running: Mapping[int, Broker]) -> Row:
    state = image.topics[tp.topic].partitions[tp.partition]
    broker = running.get(state.leader)
    led = None if broker is None else broker.replica(tp)
    says = "offline" if state.leader == NO_LEADER else CALM if led is None else _state_of(led)
    lags = [[each, _lag(led, each, state.leader), int(each in state.isr_ids)] for each in state.replicas]
    return [tp.topic, tp.partition, state.leader, state.leader_epoch, says, lags]


def _state_of(led: Partition) -> str:
    if led.high_watermark < led.log.log_end_offset:
        return "waits"
    return "unstable" if led.last_stable_offset < led.high_watermark else CALM


def _lag(led: Partition | None, broker_id: int, leader: int) -> int:
    if led is None:
        return NO_LAG_KNOWN
    follower = led.followers.get(broker_id)
    if broker_id == leader:
        return 0
    at = led.log.log_start_offset if follower is None else max(follower.log_end_offset, led.log.log_start_offset)
    return max(0, led.log.log_end_offset - at)


def _rank(row: Row) -> tuple[int, bool, str, int]:
    return _ORDER[row[4]], is_internal(row[0]), row[0], row[1]


def merged_matrix(answers: Iterable[Answer]) -> Answer:
    """Return each partition as its leader's process has it."""
    rows: dict[tuple[str, int], Row] = {}
    all_answers = list(answers)
    for answer in all_answers:
        for row in answer["rows"]:
            known = rows.get((row[0], row[1]))
            if known is None or _knows(row) > _knows(known):
                rows[row[0], row[1]] = row
    return {
        **all_answers[0],
        "now_ms": max(answer["now_ms"] for answer in all_answers),
        "partition_count": max(answer["partition_count"] for answer in all_answers),
        "rows": sorted(rows.values(), key=_rank)[:ROWS],
    }


def _knows(row: Row) -> tuple[int, bool]:
    """Return more for the newer leader epoch, and for the row of the leader itself."""
    return row[3], any(lag != NO_LAG_KNOWN for _, lag, _ in row[5])
