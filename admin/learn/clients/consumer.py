"""A client that reads a partition by long polls."""

from __future__ import annotations

from purgatorio.admin.learn.clients.client import Client, Durations, Stage
from purgatorio.client.client import check
from purgatorio.client.fetch import batches, fetch


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
        self._tp = topic, 0
        self._min_bytes = min_bytes
        self._max_wait_ms = max_wait_ms
        self._read_committed = read_committed
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
        leader = await self.known_leader(self._tp)
        data = await fetch(
            self,
            leader.broker_id,
            self._tp,
            self._position,
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            committed=self._read_committed,
        )
        check(data.error_code)
        for header, *_ in batches(data):
            self._position = max(self._position, header.last_offset + 1)
        self.facts["polls"] = int(self.facts["polls"]) + 1
        self.facts["poll_ms"] = self._durations.add(self.now_ms - asked_ms)
        self.facts["position"] = self._position
