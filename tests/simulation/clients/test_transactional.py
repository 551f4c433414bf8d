"""A simulated transactional producer sends what its protocol asks for, and tells the history no more than it knows."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from typing import Any

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.client.client import KEYS, Leader, Partition
from purgatorio.client.group import GroupMembership
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from purgatorio.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from purgatorio.protocol.messages.end_txn import EndTxnResponse
from purgatorio.protocol.messages.init_producer_id import InitProducerIdResponse
from purgatorio.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from purgatorio.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from purgatorio.purgatory.clock import ManualClock
from purgatorio.simulation.clients.clients import Client, Output
from purgatorio.simulation.clients.plans import TV1, TV2, ProducerVersions, TransactionPlan, Value
from purgatorio.simulation.clients.transactional import Fenced, MustAbort, TransactionalProducer
from purgatorio.simulation.history.history import Acked, Failed, History, OffsetCommitted, TxnEnded, TxnInit, Unknown

ORDERS = Output("orders", 0)
MEMBER = GroupMembership("billing", 3, "m-1")
INIT, ADD, PRODUCE = ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE
OFFSETS, COMMIT, END = ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN
LOST = None
"""An answer that does not arrive."""


class FakeClient(Client):
    """Answers each request with success, or with what a test has put down for its API."""

    def __init__(self) -> None:
        super().__init__("p", [], clock=ManualClock(), rng=random.Random(1), history=History())
        self.asked: list[tuple[ApiKey, int]] = []
        self.answers: dict[ApiKey, deque[ErrorCode | None]] = {}
        self.epoch = -1
        self.hangs = False

    def answer(self, key: ApiKey, *codes: ErrorCode | None) -> None:
        self.answers[key] = deque(codes)

    async def back_off(self) -> None:
        return

    async def coordinator(self, key: str, key_type: int = 0) -> int:
        return 1

    async def leader(self, tp: Partition) -> Leader:
        return Leader(2, 5)

    def close(self) -> None:
        return

    async def ask(self, broker_id: int, request: Message, *, timeout_ms: int | None = None) -> Any:
        key = KEYS[type(request)]
        self.asked.append((key, self.versions[key]))
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        codes = self.answers.get(key)
        code = codes.popleft() if codes else ErrorCode.NONE
        if code is LOST:
            raise ConnectionResetError
        return self._answered(key, code)

    def _answered(self, key: ApiKey, code: ErrorCode) -> Any:
        if key is INIT:
            self.epoch += code is ErrorCode.NONE
            return InitProducerIdResponse(error_code=code, producer_id=1000, producer_epoch=self.epoch)
        if key is ADD:
            results = [AddPartitionsToTxnPartitionResult(partition_error_code=code)]
            topics = [AddPartitionsToTxnTopicResult(name="orders", results_by_partition=results)]
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
        if key is PRODUCE:
            partitions = [PartitionProduceResponse(error_code=code, base_offset=40)]
            return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=partitions)])
        if key is OFFSETS:
            return AddOffsetsToTxnResponse(error_code=code)
        if key is COMMIT:
            each = [TxnOffsetCommitResponsePartition(error_code=code)]
            return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="orders", partitions=each)])
        self.epoch += code is ErrorCode.NONE
        return EndTxnResponse(error_code=code, producer_id=1000, producer_epoch=self.epoch)


class Bench:
    """A producer, its faked connections, and what it has told."""

    def __init__(self, versions: ProducerVersions = TV1) -> None:
        self.client = FakeClient()
        self.history = self.client.history
        plan = TransactionPlan(versions, timeout_ms=1_000)
        self.producer = TransactionalProducer(self.client, "writer", plan, itertools.count(1))

    @property
    def asked(self) -> list[tuple[ApiKey, int]]:
        """What was asked since the last time."""
        asked, self.client.asked = self.client.asked, []
        return asked

    @property
    def outcomes(self) -> list[str]:
        return [event.outcome for event in self.history.of(TxnEnded)]

    @property
    def committed_offsets(self) -> list[str]:
        return [event.outcome for event in self.history.of(OffsetCommitted)]

    async def write(self) -> None:
        """Begin a transaction, and write a value and an offset in it."""
        await self.producer.begin()
        await self.producer.send({ORDERS: [Value(7)]})
        await self.producer.send_offsets({TopicPartition("input", 0): 9}, MEMBER)


async def test_the_first_version_adds_what_it_writes_to() -> None:
    bench = Bench(TV1)
    await bench.write()
    assert bench.asked == [(INIT, 4), (ADD, 3), (PRODUCE, 11), (OFFSETS, 3), (COMMIT, 4)]
    await bench.producer.commit()
    assert bench.asked == [(END, 4)]
    assert (bench.outcomes, bench.committed_offsets) == (["committed"], ["acked"])
    await bench.producer.begin()
    assert bench.asked == [], "the epoch is as before"


async def test_the_second_version_only_writes_and_takes_the_next_epoch() -> None:
    bench = Bench(TV2)
    await bench.write()
    assert bench.asked == [(INIT, 4), (PRODUCE, 12), (COMMIT, 5)]
    bench.client.answer(END, LOST)
    await bench.producer.commit()
    assert bench.asked == [(END, 5), (END, 5)]
    await bench.producer.begin()
    assert bench.asked == []
    assert [event.epoch for event in bench.history.of(TxnInit)] == [0]


async def test_an_aborted_transaction_commits_no_offsets() -> None:
    bench = Bench()
    await bench.write()
    await bench.producer.abort()
    assert (bench.outcomes, bench.committed_offsets) == (["aborted"], ["refused"])


async def test_concurrent_transactions_are_waited_for() -> None:
    bench = Bench()
    bench.client.answer(INIT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.client.answer(ADD, ErrorCode.CONCURRENT_TRANSACTIONS)
    await bench.write()
    assert [key for key, _ in bench.asked] == [INIT, INIT, INIT, ADD, ADD, PRODUCE, OFFSETS, COMMIT]


@pytest.mark.parametrize("lost", [END, COMMIT])
async def test_after_a_lost_request_that_may_arrive_later_the_epoch_is_raised(lost: ApiKey) -> None:
    bench = Bench(TV1)
    bench.client.answer(lost, LOST)
    await bench.write()
    await bench.producer.commit()
    assert bench.outcomes == ["committed"]
    bench.asked.clear()
    await bench.producer.begin()
    assert bench.asked == [(INIT, 4)]


@pytest.mark.parametrize(
    ("codes", "outcome"),
    [
        ((ErrorCode.INVALID_TXN_STATE,), "aborted"),
        ((ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE), "aborted"),
        ((LOST, ErrorCode.INVALID_TXN_STATE), "unknown"),
        ((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_TXN_STATE), "unknown"),
    ],
)
async def test_a_refused_commit_is_unknown_if_an_earlier_attempt_may_have_been_taken(
    codes: tuple[ErrorCode | None, ...], outcome: str
) -> None:
    bench = Bench()
    await bench.write()
    bench.client.answer(END, *codes)
    with pytest.raises(MustAbort):
        await bench.producer.commit()
    assert bench.outcomes == [outcome]
    assert bench.committed_offsets == [{"aborted": "refused"}.get(outcome, outcome)]
    assert not bench.producer.is_open


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_a_fenced_producer_is_at_its_end(code: ErrorCode) -> None:
    bench = Bench()
    await bench.write()
    bench.client.answer(END, code)
    with pytest.raises(Fenced):
        await bench.producer.commit()
    bench.client.answer(INIT, code)
    with pytest.raises(Fenced):
        await bench.producer.begin()
    assert bench.outcomes == ["aborted"]


async def test_a_client_that_is_killed_in_its_commit_does_not_know_the_outcome() -> None:
    bench = Bench()
    await bench.write()
    bench.client.hangs = True
    committing = asyncio.create_task(bench.producer.commit())
    await asyncio.sleep(0)
    committing.cancel()
    await asyncio.wait([committing])
    assert (bench.outcomes, bench.committed_offsets) == (["unknown"], ["unknown"])


async def test_a_record_that_is_refused_ends_the_transaction_and_the_epoch() -> None:
    bench = Bench()
    await bench.producer.begin()
    bench.client.answer(PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_TXN_STATE)
    with pytest.raises(MustAbort):
        await bench.producer.send({ORDERS: [Value(7)]})
    await bench.producer.abort()
    bench.asked.clear()
    await bench.producer.begin()
    assert bench.asked == [(INIT, 4)]
    ends = [type(event) for event in bench.history if isinstance(event, (Acked, Failed, Unknown))]
    assert ends == [Unknown]


async def test_the_second_version_raises_the_epoch_by_its_abort() -> None:
    bench = Bench(TV2)
    await bench.producer.begin()
    bench.client.answer(PRODUCE, ErrorCode.INVALID_TXN_STATE)
    with pytest.raises(MustAbort):
        await bench.producer.send({ORDERS: [Value(7)]})
    await bench.producer.abort()
    bench.asked.clear()
    await bench.producer.begin()
    assert bench.asked == []


async def test_partitions_and_offsets_that_are_refused_end_the_transaction() -> None:
    for key in (ADD, OFFSETS, COMMIT):
        bench = Bench()
        bench.client.answer(key, ErrorCode.TRANSACTION_ABORTABLE)
        with pytest.raises(MustAbort):
            await bench.write()
        await bench.producer.abort()
        assert bench.outcomes == ["aborted"]
