"""A client that sends records at a steady pace, whether the earlier ones are acknowledged or not."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.admin.learn.clients.client import REQUEST_TIMEOUT_MS, Client, Durations, Stage
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

PRODUCE_VERSION: Final = 9
ACKS_ALL: Final = -1


class Producer(Client):
    """Sends batches to partition 0 of each of its topics with acks=all, and none of them twice.

    Args:
        topics: to which it sends.
        every_ms: the time from one batch to the next.
        records: of a batch.
        bytes: the length of a value.
        timeout_ms: how long the leader may wait for its followers.

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
    ) -> None:
        super().__init__(stage, name)
        self._tps = [TopicPartition(topic, 0) for topic in topics]
        self._every_ms = every_ms
        self._records = records
        self._bytes = bytes
        self._timeout_ms = timeout_ms
        self._durations = Durations()
        self.facts.update(acked=0, refused=0, ack_ms=0, last="", error="")

    async def live(self) -> None:
        while True:
            for tp in self._tps:
                await self._send(tp, self._records, self._bytes)
            await self.sleep(self._every_ms)

    async def burst(self, records: int, bytes: int) -> None:
        """Send a batch out of turn."""
        for tp in self._tps:
            await self._send(tp, records, bytes)

    async def _send(self, tp: TopicPartition, records: int, bytes_: int) -> None:
        """Send a batch; its answer is taken when it comes."""
        connection = await self.connection(await self.leader(tp))
        sent_ms, wall_ms = self.now_ms, self._stage.clock.wall_ms()
        batch = build_batch([Record(nth, wall_ms, None, b"." * bytes_) for nth in range(records)])
        data = TopicProduceData(name=tp.topic, partition_data=[PartitionProduceData(index=tp.partition, records=batch)])
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=self._timeout_ms, topic_data=[data])

        def done(answer: Any, error: Exception | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION
            if answer is not None:
                code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            self._answered(tp, code, sent_ms)

        connection.send(ApiKey.PRODUCE, PRODUCE_VERSION, request, timeout_ms=REQUEST_TIMEOUT_MS, done=done)

    def _answered(self, tp: TopicPartition, code: ErrorCode, sent_ms: int) -> None:
        if code is ErrorCode.NONE:
            self.facts["acked"] = int(self.facts["acked"]) + 1
            self.facts["ack_ms"] = self._durations.add(self.now_ms - sent_ms)
            self.facts["last"] = "acknowledged"
            return
        self._leaders.pop(tp, None)  # where the leader is, is asked again
        self.facts["refused"] = int(self.facts["refused"]) + 1
        self.facts["last"] = self.facts["error"] = code.name
