"""A simulated member's share sessions: it acquires records from one broker, and acknowledges them (KIP-932).

It acknowledges with its next fetch, or by itself, all records of a part alike or each in its own way. In bad times it
gives records back, rejects some, needs more time (KIP-1222), keeps some too long, or says nothing of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.acknowledging import AcknowledgeType
from purgatorio.client.client import FAILURES, VERSIONS, Unavailable
from purgatorio.client.group import Key
from purgatorio.client.share import Acknowledgement, AcquiringSession
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.share_fetch import FINAL_EPOCH, INITIAL_EPOCH, PartitionData
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import iter_batches, iter_records
from purgatorio.simulation.clients.clients import Client
from purgatorio.simulation.clients.plans import ShareGroupShared
from purgatorio.simulation.history.share_events import ShareAcknowledged, ShareAcquired

MAX_WAIT_MS: Final = (20, 400)
MAX_RECORDS: Final = (1, 40)
BATCH_SIZES: Final = (1, 5, 100)
WORK_MS: Final = (0.0, 120.0)
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
GAP, RENEW = AcknowledgeType.GAP, AcknowledgeType.RENEW
MOODS: Final = (ACCEPT, RELEASE, REJECT, RENEW)
WEIGHTS: Final = (80, 12, 4, 4)

REFUSED: Final = (
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
)
"""Brokers answer these before they write. NOT_LEADER_OR_FOLLOWER may come after that, as may others."""


class LostSession(Exception):
    """The broker does not go on with the share session."""


@dataclass(slots=True)
class ShareSessionClient:
    """One member's session with one broker; `wanted` returns the partitions to fetch from it now."""

    client: Client
    shared: ShareGroupShared
    member_id: str
    broker_id: int
    wanted: Callable[[], Sequence[Key]]
    rng: random.Random
    _session: AcquiringSession = field(init=False)
    _due: dict[Key, list[Acknowledgement]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        version = self.shared.plan.version
        self.client.versions = {**VERSIONS, ApiKey.SHARE_FETCH: version, ApiKey.SHARE_ACKNOWLEDGE: version}
        self._session = AcquiringSession(self.shared.plan.group_id, self.member_id)

    async def run(self) -> None:
        """Fetch and acknowledge while there is something to fetch from; then end the session."""
        try:
            while self.wanted():
                try:
                    await self._step()
                except LostSession:
                    self._begin_anew()
                except FAILURES:
                    self._begin_anew()
                    return
            await self._close()
        finally:
            self.client.close()

    def _begin_anew(self) -> None:
        self._session.begin_anew()
        self._due.clear()

    async def _step(self) -> None:
        if self._due and self._session.epoch != INITIAL_EPOCH and self.rng.random() < 0.5:
            await self._acknowledge()
        await self._work(await self._fetch())

    async def _close(self) -> None:
        """Acknowledge what is left with the last request of the session."""
        if self._session.epoch != INITIAL_EPOCH:
            self._session.epoch = FINAL_EPOCH
            try:
                await self._acknowledge()
            except (*FAILURES, LostSession):
                return

    # --- requests ---

    async def _acknowledge(self) -> None:
        told, self._due = self._due, {}
        request = self._session.acknowledge(told)
        if self.shared.plan.version > 1:
            request.is_renew_ack = _renews(told)
        await self._send(request, told, _codes_of_acknowledge)

    async def _fetch(self) -> tuple[int, Any]:
        """Fetch, with what is due; return when it was asked, and the answer."""
        told, self._due = self._due, {}
        request = self._session.fetch(
            self.wanted(),
            told,
            max_wait_ms=self.rng.randint(*MAX_WAIT_MS),
            max_bytes=self.shared.reader.max_bytes,
            max_records=self.rng.randint(*MAX_RECORDS),
            batch_size=self.rng.choice(BATCH_SIZES),
        )
        if self.shared.plan.version > 1:
            request.share_acquire_mode = self.rng.randint(0, 1)
            if _renews(told):
                request.is_renew_ack = True
                request.max_wait_ms = request.min_bytes = request.max_bytes = request.max_records = 0
        asked_ms = self.client.clock.now_ms()
        return asked_ms, await self._send(request, told, _codes_of_fetch)

    async def _send(
        self,
        request: Any,
        told: Mapping[Key, list[Acknowledgement]],
        codes: Callable[[Any], Iterator[tuple[Key, int]]],
    ) -> Any:
        """Send a request, and record what became of its acknowledgements, also if this client is killed meanwhile."""
        asked_ms, outcomes = self.client.clock.now_ms(), dict.fromkeys(told, "unknown")
        try:
            response = await self.client.ask(self.broker_id, request)
            if response.error_code:
                code = ErrorCode(response.error_code)
                outcomes = dict.fromkeys(told, "refused" if code in REFUSED else "unknown")
                raise LostSession(code.name)
            outcomes |= {each: _outcome(code) for each, code in codes(response) if each in outcomes}
        finally:
            for each, batches in told.items():
                for batch in batches:
                    where = self.shared.plan.group_id, self.member_id, str(self.shared.partitions[each])
                    self.client.record(ShareAcknowledged, *where, *batch, asked_ms, outcomes[each])
        self._session.went_on()
        self._keep_renewed(told, outcomes)
        return response

    def _keep_renewed(self, told: Mapping[Key, Sequence[Acknowledgement]], outcomes: Mapping[Key, str]) -> None:
        """Decide anew about records whose locks the member has renewed."""
        for key, batches in told.items():
            renewed = [
                offset
                for each in batches
                for offset in range(each.first_offset, each.last_offset + 1)
                if each.types[min(offset - each.first_offset, len(each.types) - 1)] == RENEW
            ]
            if renewed and outcomes[key] == "acked":
                self._due.setdefault(key, []).extend(
                    Acknowledgement(offset, offset, (self._type(),)) for offset in renewed
                )

    # --- records ---

    async def _work(self, answer: tuple[int, Any]) -> None:
        """Work on the records that were acquired, and decide about them."""
        asked_ms, response = answer
        is_elsewhere = False
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                is_elsewhere = is_elsewhere or data.error_code != ErrorCode.NONE
                for acquired in data.acquired_records:
                    self._take(key, data, acquired, asked_ms)
        if is_elsewhere:
            raise Unavailable("a partition has another leader, or none")
        if self._due:
            await asyncio.sleep(self.rng.uniform(*WORK_MS) / 1000)
            if self.shared.is_restless():
                await self._follow_a_whim()

    async def _follow_a_whim(self) -> None:
        chance = self.rng.random()
        if chance < 0.03:
            await asyncio.sleep(1.3 * self.shared.plan.lock_ms / 1000)
        elif chance < 0.06:
            self._due.clear()  # it says nothing of these records

    def _take(self, key: Key, data: PartitionData, acquired: Any, asked_ms: int) -> None:
        """Record what was acquired, and decide what becomes of it."""
        first, last = acquired.first_offset, acquired.last_offset
        values = tuple(
            (record.offset, int(record.value or b"-1"))
            for header, batch in iter_batches(cast("Buffer | None", data.records) or b"")
            if not header.is_control
            for record in iter_records(batch)
            if first <= record.offset <= last
        )
        tp: TopicPartition = self.shared.partitions[key]
        where = self.shared.plan.group_id, self.member_id, str(tp), first, last
        self.client.record(ShareAcquired, *where, acquired.delivery_count, asked_ms, self.broker_id, values)
        self._due.setdefault(key, []).extend(self._decide(first, last, dict(values)))

    def _decide(self, first: int, last: int, values: Mapping[int, int]) -> list[Acknowledgement]:
        if len(values) == last - first + 1 and self.rng.random() < 0.6:
            return [Acknowledgement(first, last, (self._type(),))]
        return [
            Acknowledgement(
                first, last, tuple(self._type() if offset in values else GAP for offset in range(first, last + 1))
            )
        ]

    def _type(self) -> int:
        if not self.shared.is_restless():
            return ACCEPT
        (mood,) = self.rng.choices(MOODS, WEIGHTS)
        return ACCEPT if mood is RENEW and self.shared.plan.version == 1 else mood


def _renews(told: Mapping[Key, Sequence[Acknowledgement]]) -> bool:
    return any(RENEW in each.types for batches in told.values() for each in batches)


def _outcome(code: int) -> str:
    return "acked" if not code else "refused" if ErrorCode(code) in REFUSED else "unknown"


def _codes_of_acknowledge(response: Any) -> Iterator[tuple[Key, int]]:
    for topic in response.responses:
        for each in topic.partitions:
            yield (topic.topic_id, each.partition_index), each.error_code


def _codes_of_fetch(response: Any) -> Iterator[tuple[Key, int]]:
    for topic in response.responses:
        for each in topic.partitions:
            yield (topic.topic_id, each.partition_index), each.acknowledge_error_code
