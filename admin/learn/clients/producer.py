"""A client that sends records at a steady pace, up to a number that are not acknowledged yet."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.admin.learn.clients.client import Client, Durations, Stage
from purgatorio.client.client import Partition
from purgatorio.client.produce import batch_of, produce_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode

DELIVERY_TIMEOUT_MS: Final = 120_000
"""Kafka's default: longer than a quota mutes a client that was four times above it."""


class Producer(Client):
    """Sends batches to partition 0 of each of its topics with acks=all, and none of them twice.

    Args:
        topics: to which it sends.
        every_ms: the time from one batch to the next.
        records: of a batch.
        bytes: the length of a value.
        timeout_ms: how long the leader may wait for its followers.
        in_flight: the most batches without an answer; with so many it sends none until one is answered.

    Facts: `acked` and `refused`, numbers of batches; `ack_ms`, the median time to an acknowledgement; `last`, the
    latest answer, "acknowledged" or the name of an error; `error`, the latest error.
    """

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        topics: list[str],
        every_ms: int,
        records: int = 1,
        bytes: int = 20,
        timeout_ms: int = 30_000,
        in_flight: int = 100,
    ) -> None:
        super().__init__(stage, name)
        self._tps = [(topic, 0) for topic in topics]
        self._every_ms = every_ms
        self._records = records
        self._bytes = bytes
        self._timeout_ms = timeout_ms
        self._in_flight = in_flight
        self._unanswered = 0
        self._durations = Durations()
        self.facts.update(acked=0, refused=0, ack_ms=0, last="", error="")

    async def live(self) -> None:
        while True:
            for tp in self._tps:
                if self._unanswered < self._in_flight:
                    await self._send(tp, self._records, self._bytes)
            await self.sleep(self._every_ms)

    async def burst(self, records: int, bytes: int) -> None:
        """Send a batch out of turn."""
        for tp in self._tps:
            await self._send(tp, records, bytes)

    async def _send(self, tp: Partition, records: int, bytes_: int) -> None:
        """Send a batch; its answer is taken when it comes."""
        link = await self.link((await self.known_leader(tp)).broker_id)
        sent_ms = self.now_ms
        batch = batch_of([b"." * bytes_] * records, self.clock.wall_ms())

        def done(answer: Any, error: Exception | None) -> None:
            self._unanswered -= 1
            code = ErrorCode.NETWORK_EXCEPTION
            if answer is not None:
                code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            self._answered(tp, code, sent_ms)

        request = produce_request(tp, batch, timeout_ms=self._timeout_ms)
        version = self.versions[ApiKey.PRODUCE]
        link.send(ApiKey.PRODUCE, version, request, timeout_ms=DELIVERY_TIMEOUT_MS, done=done)
        self._unanswered += 1

    def _answered(self, tp: Partition, code: ErrorCode, sent_ms: int) -> None:
        if code is ErrorCode.NONE:
            self.facts["acked"] = int(self.facts["acked"]) + 1
            self.facts["ack_ms"] = self._durations.add(self.now_ms - sent_ms)
            self.facts["last"] = "acknowledged"
            return
        self.leaders.pop(tp, None)  # where the leader is, is asked again
        self.facts["refused"] = int(self.facts["refused"]) + 1
        self.facts["last"] = self.facts["error"] = code.name
