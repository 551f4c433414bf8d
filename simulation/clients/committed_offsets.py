"""Simulated clients ask for the offsets that a group has committed, and record what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from purgatorio.simulation.clients.clients import NETWORK_ERRORS, REQUEST_TIMEOUT_MS, Client, Unavailable
from purgatorio.simulation.clients.group_plan import Surroundings
from purgatorio.simulation.history.history import OffsetRead

OFFSET_FETCH_VERSION: Final = 9


async def read_offsets(
    client: Client,
    coordinator: int,
    shared: Surroundings,
    partitions: Sequence[TopicPartition],
    *,
    member_id: str | None = None,
    epoch: int = -1,
) -> dict[TopicPartition, int]:
    """Ask for the committed offsets of partitions, and record them; -1: there is none.

    Raises:
        Unavailable: the broker does not give them now.
        OSError, TimeoutError, ProtocolError: the broker did not answer.
    """
    topics = [OffsetFetchRequestTopics(name=tp.topic, partition_indexes=[tp.partition]) for tp in partitions]
    group_id = shared.plan.group_id
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    if member_id is not None:
        group.member_id, group.member_epoch = member_id, epoch
    asked_ms = shared.clock.now_ms()
    response = await client.ask(
        coordinator,
        ApiKey.OFFSET_FETCH,
        OFFSET_FETCH_VERSION,
        # Behind a transaction that is not over, the group coordinator answers UNSTABLE_OFFSET_COMMIT (KIP-447).
        OffsetFetchRequest(groups=[group], require_stable=shared.transactions is not None),
        timeout_ms=REQUEST_TIMEOUT_MS,
    )
    answer = response.groups[0]
    codes = [answer.error_code, *(each.error_code for topic in answer.topics for each in topic.partitions)]
    if any(codes):
        raise Unavailable(str([ErrorCode(code).name for code in codes if code]))
    offsets = {}
    for topic in answer.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            offsets[tp] = each.committed_offset
            shared.history.record(OffsetRead(shared.clock.now_ms(), group_id, str(tp), each.committed_offset, asked_ms))
    return offsets


class OffsetObserver:
    """Reads the committed offsets of a group again and again, as monitors of consumer lag do."""

    def __init__(self, client: Client, shared: Surroundings) -> None:
        self._client = client
        self._shared = shared

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Read until `stopped`, and once more after that."""
        coordinator, last = -1, False
        try:
            while not last:
                last = stopped()
                try:
                    if coordinator < 0:
                        coordinator = await self._client.coordinator(self._shared.plan.group_id)
                    await read_offsets(self._client, coordinator, self._shared, self._shared.partitions)
                    await asyncio.sleep(self._client.rng.uniform(0.1, 0.4))
                except (*NETWORK_ERRORS, Unavailable):
                    coordinator, last = -1, False
                    await self._client.back_off()
        finally:
            self._client.close()
