"""A member of a share group (KIP-932), which may keep what it has acquired."""

from __future__ import annotations

import uuid
from typing import Final

from purgatorio.admin.learn.clients.client import Address, Client, Stage, check
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.share_acknowledge import AcknowledgementBatch
from purgatorio.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

HEARTBEAT_VERSION: Final = 1
FETCH_VERSION: Final = 1
MAX_WAIT_MS: Final = 5_000
"""Shorter than a session: between its fetches it sends a heartbeat."""
MAX_BYTES: Final = 1024 * 1024
ACCEPT: Final = 1
MAX_EPOCH: Final = 2**31 - 1
RETRY_MS: Final = 50


class ShareMember(Client):
    """Acquires records of partition 0 of a topic, and acknowledges them with its next fetch.

    Args:
        max_records: of one fetch.
        is_slow: whether it keeps what it has acquired, and fetches no more.

    Facts: `acquired`, records so far; `held`, those that it has not acknowledged; `deliveries`, how often the latest of
    them was delivered.
    """

    def __init__(
        self, stage: Stage, name: str, *, group: str, topic: str, max_records: int = 500, is_slow: bool = False
    ) -> None:
        super().__init__(stage, name)
        self._group = group
        self._tp = TopicPartition(topic, 0)
        self._max_records = max_records
        self._is_slow = is_slow
        self._member_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{group}/{name}"))
        self._held: list[tuple[int, int]] = []
        self.facts.update(acquired=0, held=0, deliveries=0)

    async def live(self) -> None:
        topic_id = await self.topic_id(self._tp.topic)
        heartbeat = ShareGroupHeartbeatRequest(
            group_id=self._group, member_id=self._member_id, member_epoch=0, subscribed_topic_names=[self._tp.topic]
        )
        coordinator = await self.coordinator(self._group)
        while not await self._beat(coordinator, heartbeat):
            await self.sleep(RETRY_MS)
        session_epoch = 0
        while True:
            await self._beat(coordinator, heartbeat)
            if self._held and self._is_slow:
                await self.sleep(RETRY_MS)
                continue
            acknowledged = [
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])
                for first, last in self._held
            ]
            self._held = []
            part = FetchPartition(partition_index=0, acknowledgement_batches=acknowledged)
            request = ShareFetchRequest(
                group_id=self._group,
                member_id=self._member_id,
                share_session_epoch=session_epoch,
                max_wait_ms=MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=MAX_BYTES,
                max_records=self._max_records,
                batch_size=self._max_records,
                topics=[FetchTopic(topic_id=topic_id, partitions=[part])] if acknowledged or not session_epoch else [],
            )
            self._take(await self.ask(await self.leader(self._tp), ApiKey.SHARE_FETCH, FETCH_VERSION, request))
            session_epoch = session_epoch % MAX_EPOCH + 1

    async def _beat(self, coordinator: Address, request: ShareGroupHeartbeatRequest) -> bool:
        """Send a heartbeat; return whether its answer assigns something."""
        answer = await self.ask(coordinator, ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request)
        check(answer.error_code)
        request.member_epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    def _take(self, answer: ShareFetchResponse) -> None:
        check(answer.error_code)
        for topic in answer.responses:
            for data in topic.partitions:
                check(data.error_code)
                for each in data.acquired_records:
                    self._held.append((each.first_offset, each.last_offset))
                    self.facts["acquired"] = int(self.facts["acquired"]) + each.last_offset - each.first_offset + 1
                    self.facts["deliveries"] = each.delivery_count
        self.facts["held"] = sum(last - first + 1 for first, last in self._held)
