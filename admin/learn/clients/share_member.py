"""A member of a share group (KIP-932), which may keep what it has acquired."""

from __future__ import annotations

import uuid
from typing import Final

from purgatorio.admin.learn.clients.client import Client, Stage
from purgatorio.client.client import Coordinator, check
from purgatorio.client.group import JOINS, assigned
from purgatorio.client.share import Acknowledgement, AcquiringSession, share_heartbeat
from purgatorio.protocol.messages.share_fetch import ShareFetchResponse

MAX_WAIT_MS: Final = 5_000
"""Shorter than a session: between its fetches it sends a heartbeat."""
RETRY_MS: Final = 50


class ShareMember(Client):
    """Acquires records of partition 0 of a topic, and acknowledges them with its next fetch.

    Args:
        max_records: of one fetch.
        is_slow: whether it keeps what it has acquired, and fetches no more.

    Facts: `acquired`, records so far; `held`, those that it has not acknowledged; `deliveries`, how often one of them
    was delivered at most.
    """

    def __init__(
        self, stage: Stage, name: str, *, group: str, topic: str, max_records: int = 500, is_slow: bool = False
    ) -> None:
        super().__init__(stage, name)
        self.group = group
        self._tp = topic, 0
        self._max_records = max_records
        self._is_slow = is_slow
        self.member_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{group}/{name}"))
        self._epoch = JOINS
        self._held: list[Acknowledgement] = []
        self.facts.update(acquired=0, held=0, deliveries=0)

    async def live(self) -> None:
        (topic,) = (await self.metadata(self._tp[0])).topics
        key = bytes(topic.topic_id), 0
        coordinator = Coordinator(self, self.group)
        self._epoch = JOINS
        while not await self._beat(coordinator):
            await self.sleep(RETRY_MS)
        session = AcquiringSession(self.group, self.member_id)
        while True:
            await self._beat(coordinator)
            if self._held and self._is_slow:
                await self.sleep(RETRY_MS)
                continue
            accepted, self._held = {key: self._held} if self._held else {}, []
            request = session.fetch([key], accepted, max_wait_ms=MAX_WAIT_MS, max_records=self._max_records)
            self._take(await self.ask((await self.known_leader(self._tp)).broker_id, request))
            session.went_on()

    async def _beat(self, coordinator: Coordinator) -> bool:
        """Send a heartbeat; return whether its answer assigns something."""
        request = share_heartbeat(self.group, self.member_id, self._epoch, [self._tp[0]])
        answer = await coordinator.ask(request)
        check(answer.error_code)
        self._epoch = answer.member_epoch
        return bool(assigned(answer))

    def _take(self, answer: ShareFetchResponse) -> None:
        check(answer.error_code)
        for topic in answer.responses:
            for data in topic.partitions:
                check(data.error_code)
                for each in data.acquired_records:
                    self._held.append(Acknowledgement(each.first_offset, each.last_offset))
                    self.facts["acquired"] = int(self.facts["acquired"]) + each.last_offset - each.first_offset + 1
                    self.facts["deliveries"] = max(int(self.facts["deliveries"]), each.delivery_count)
        self.facts["held"] = sum(last - first + 1 for first, last, _ in self._held)
