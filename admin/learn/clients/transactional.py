"""A client that writes in transactions, and may leave one open."""

from __future__ import annotations

import asyncio
from typing import Final

from purgatorio.admin.learn.clients.client import TRANSACTION, Address, Client, Stage, check
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

INIT_PRODUCER_ID_VERSION: Final = 4
ADD_PARTITIONS_VERSION: Final = 3
PRODUCE_VERSION: Final = 9
END_TXN_VERSION: Final = 3
PRODUCE_TIMEOUT_MS: Final = 30_000
LOOK_MS: Final = 20


class Transactional(Client):
    """Writes a record to partition 0 of a topic in each of its transactions, and commits it.

    Args:
        every_ms: the time from a commit to the next transaction.
        leaves_open: whether it leaves its first transaction open.

    Facts: `commits`; `epoch`, that of its producer; `last`, what became of the latest record: "written", or the name of
    an error; `state`, "open" or "committed".
    """

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        topic: str,
        transactional_id: str,
        every_ms: int = 300,
        leaves_open: bool = False,
        timeout_ms: int = 60_000,
    ) -> None:
        super().__init__(stage, name)
        self._tp = TopicPartition(topic, 0)
        self._id = transactional_id
        self._every_ms = every_ms
        self._leaves_open = leaves_open
        self._timeout_ms = timeout_ms
        self._producer_id, self._epoch, self._sequence = -1, -1, 0
        self._begun = asyncio.Event()
        self.facts.update(commits=0, epoch=-1, last="", state="")

    async def live(self) -> None:
        coordinator = await self.coordinator(self._id, TRANSACTION)
        await self._init(coordinator)
        while True:
            await self._begin(coordinator)
            check(await self._write())
            self._begun.set()
            while self._leaves_open:
                await self.sleep(LOOK_MS)
            await self._commit(coordinator)
            due_ms = self.now_ms + self._every_ms
            while self.now_ms < due_ms and not self._leaves_open:
                await self.sleep(LOOK_MS)

    # --- what steps tell it ---

    async def leave_open(self) -> None:
        """Leave the next transaction open, after its first record."""
        self._leaves_open = True

    async def commit(self) -> None:
        """Commit what was left open, and go on."""
        self._leaves_open = False

    async def write(self) -> None:
        """Write one more record in the transaction that was left open, whatever has become of it."""
        await self._begun.wait()
        await self._write()

    # --- requests ---

    async def _init(self, coordinator: Address) -> None:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=self._timeout_ms)
        answer = await self.ask(coordinator, ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request)
        check(answer.error_code)
        self._producer_id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        self.facts["epoch"] = self._epoch

    async def _begin(self, coordinator: Address) -> None:
        """Add the partition to the transaction; after a commit its end markers may have to be written first."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._tp.topic, partitions=[0])],
        )
        code = ErrorCode.CONCURRENT_TRANSACTIONS
        while code is ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = await self.ask(coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, request)
            code = ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
            if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                await self.sleep(LOOK_MS)
        check(code)
        self.facts["state"] = "open"

    async def _write(self) -> ErrorCode:
        batch = build_batch(
            [Record(0, self._stage.clock.wall_ms(), None, self.name.encode())],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        data = TopicProduceData(name=self._tp.topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
        answer = await self.ask(await self.leader(self._tp), ApiKey.PRODUCE, PRODUCE_VERSION, request)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        self._sequence += code is ErrorCode.NONE
        self.facts["last"] = "written" if code is ErrorCode.NONE else code.name
        return code

    async def _commit(self, coordinator: Address) -> None:
        request = EndTxnRequest(
            transactional_id=self._id, producer_id=self._producer_id, producer_epoch=self._epoch, committed=True
        )
        check((await self.ask(coordinator, ApiKey.END_TXN, END_TXN_VERSION, request)).error_code)
        self.facts["commits"] = int(self.facts["commits"]) + 1
        self.facts["state"] = "committed"
