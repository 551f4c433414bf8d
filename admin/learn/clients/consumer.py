"""A client that reads a partition by long polls."""

from __future__ import annotations

from typing import Final, cast

from purgatorio.admin.learn.clients.client import Client, Durations, Stage, check
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import iter_batches

FETCH_VERSION: Final = 12
MAX_BYTES: Final = 1024 * 1024


class Consumer(Client):
    """Reads partition 0 of a topic from its beginning; it keeps no record.

    Args:
        min_bytes, max_wait_ms: what it asks for in each poll (fetch.min.bytes, fetch.max.wait.ms).
        read_committed: whether it reads only records of transactions that have ended.

    Facts: `polls`, how many were answered; `poll_ms`, the median time of a poll; `position`, the next offset.
    """

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        topic: str,
        min_bytes: int = 1,
        max_wait_ms: int = 50_000,
        read_committed: bool = False,
    ) -> None:
        super().__init__(stage, name)
        self._tp = TopicPartition(topic, 0)
        self._min_bytes = min_bytes
        self._max_wait_ms = max_wait_ms
        self._isolation_level = int(read_committed)
        self._position = 0
        self._durations = Durations()
        self.facts.update(polls=0, poll_ms=0, position=0)

    async def live(self) -> None:
        while True:
            await self._poll()

    async def ask_for(self, bytes: int) -> None:
        """Poll for so many bytes from now on; a poll under way is given up."""
        self._min_bytes = bytes
        self.forget()

    async def _poll(self) -> None:
        asked_ms = self.now_ms
        part = FetchPartition(partition=0, fetch_offset=self._position, partition_max_bytes=MAX_BYTES)
        request = FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=MAX_BYTES,
            isolation_level=self._isolation_level,
            topics=[FetchTopic(topic=self._tp.topic, partitions=[part])],
        )
        leader = await self.leader(self._tp)
        answer: FetchResponse = await self.ask(leader, ApiKey.FETCH, FETCH_VERSION, request)
        data = answer.responses[0].partitions[0]
        check(data.error_code)
        for header, _ in iter_batches(cast("Buffer | None", data.records) or b"", allow_partial=True):
            self._position = max(self._position, header.last_offset + 1)
        self.facts["polls"] = int(self.facts["polls"]) + 1
        self.facts["poll_ms"] = self._durations.add(self.now_ms - asked_ms)
        self.facts["position"] = self._position
