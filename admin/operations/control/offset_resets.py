"""Where the offsets of groups are reset to: what an operator says, as offsets that the partitions have."""

from __future__ import annotations

import asyncio
from typing import Final, Literal, NamedTuple

from purgatorio.admin.operations.control.coordinators import led
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.errors import ClusterUnavailable, NotThere
from purgatorio.broker.log.time_index import LookUpBudget, TimestampOffset
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.delayed_remote_list_offsets import RemoteLookUp, RemoteLookUps
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.errors import ErrorCode

CLIENT: Final = "purgatorio.operations"


class ResetTarget(NamedTuple):
    """Where to; one of them is given.

    Attributes:
        to: the log's start or its high watermark.
        offset: the nearest one that the log has.
        timestamp_ms: the first record with this timestamp or a later one; the high watermark if there is none.
    """

    to: Literal["earliest", "latest"] | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


class PartitionReset(NamedTuple):
    """A partition whose offset was reset; `before` is None if there was none."""

    topic: str
    partition: int
    before: int | None
    after: int


async def offsets_of(
    cluster: BrokerCluster, image: ClusterImage, topic: str, partition: int | None, target: ResetTarget
) -> dict[int, int]:
    """Return the offset that is meant, by partition.

    Args:
        partition: this partition only; None: all partitions of the topic.

    Raises:
        NotThere: there is no such topic or partition.
        ClusterUnavailable: a partition has no leader here, or the tier cannot be read.
    """
    found = image.topics.get(topic)
    if found is None:
        raise NotThere(f"there is no topic {topic}")
    if partition is not None and partition >= len(found.partitions):
        raise NotThere(f"topic {topic} has no partition {partition}")
    wanted = range(len(found.partitions)) if partition is None else (partition,)
    budget = LookUpBudget()
    return {each: await _resolve(*led(cluster, image, TopicPartition(topic, each)), budget, target) for each in wanted}


async def _resolve(broker: Broker, replica: Partition, budget: LookUpBudget, target: ResetTarget) -> int:
    start, end = replica.log.log_start_offset, max(replica.high_watermark, replica.log.log_start_offset)
    if target.to is not None:
        return {"earliest": start, "latest": end}[target.to]
    if target.offset is not None:
        return min(max(target.offset, start), end)
    assert target.timestamp_ms is not None
    look_ups = broker.replicas.look_ups
    if look_ups is not None and start < replica.log.local_start_offset:
        return await _look_up(look_ups, replica, target.timestamp_ms, end)
    at = replica.log.offset_for_timestamp(target.timestamp_ms, end, budget)
    return end if at is None else at[0]


async def _look_up(look_ups: RemoteLookUps, replica: Partition, timestamp_ms: int, end: int) -> int:
    """Look up a timestamp that may lie in the tier."""
    answers: asyncio.Future[tuple[TimestampOffset, ErrorCode]] = asyncio.get_running_loop().create_future()

    def answered(found: TimestampOffset, error_code: ErrorCode) -> None:
        if not answers.done():
            answers.set_result((found, error_code))

    look_ups.park([RemoteLookUp(replica, timestamp_ms, end, -1, answered)], 0, lambda: None, CLIENT)
    found, error_code = await answers
    if error_code:
        raise ClusterUnavailable(f"{replica.tp} could not be looked up in the tier: {error_code.name}")
    return found.offset if found.offset >= 0 else end
