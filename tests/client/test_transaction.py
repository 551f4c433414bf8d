"""A transactional id repeats its requests until its coordinator takes or refuses them."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.client.transaction import TransactionalId, code_of
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from purgatorio.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from purgatorio.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.client.brokers import TP, Brokers, Patient


def added(*codes: ErrorCode) -> AddPartitionsToTxnResponse:
    results = [AddPartitionsToTxnPartitionResult(partition_error_code=code) for code in codes]
    topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    found = FindCoordinatorResponse(coordinators=[Coordinator(node_id=2, host="two", port=9092)])
    brokers.set(FindCoordinatorRequest, found)
    return brokers


def made(brokers: Brokers) -> tuple[TransactionalId, Patient]:
    client = Patient(brokers)
    return TransactionalId(client, "till", timeout_ms=1_000), client


async def test_its_requests_are_repeated_and_the_coordinator_is_found_again_when_it_has_moved(brokers: Brokers) -> None:
    till, client = made(brokers)
    busy, moved = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR
    brokers.set(AddPartitionsToTxnRequest, added(busy), added(moved), OSError("lost"), added(ErrorCode.NONE))
    assert await till.add([TP, ("orders", 1)]) is ErrorCode.NONE
    assert client.waits == 3
    assert [name for _, name in brokers.asked].count("FindCoordinatorRequest") == 3


async def test_a_refusal_is_returned_at_once(brokers: Brokers) -> None:
    till, client = made(brokers)
    brokers.set(EndTxnRequest, EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE))
    assert (await till.until_taken(till.end_request(committed=True)))[0] is ErrorCode.INVALID_TXN_STATE
    assert client.waits == 0


async def test_sequences_begin_anew_with_another_epoch(brokers: Brokers) -> None:
    till, _ = made(brokers)
    asked: list[Any] = []

    def answer(request: InitProducerIdRequest) -> InitProducerIdResponse:
        asked.append((request.producer_id, request.producer_epoch))
        return InitProducerIdResponse(producer_id=9, producer_epoch=request.producer_epoch + 1)

    brokers.set(InitProducerIdRequest, answer)
    assert await till.initialize() is ErrorCode.NONE
    assert [till.next_sequence(TP, 3), till.next_sequence(TP, 1), till.next_sequence(("b", 0), 1)] == [0, 3, 0]
    till.take((9, 0))
    assert till.next_sequence(TP, 1) == 4
    await till.initialize()
    assert (till.producer, till.next_sequence(TP, 1), asked) == ((9, 1), 0, [(-1, -1), (9, 0)])


def test_the_error_of_an_answer_is_the_one_that_says_why() -> None:
    assert code_of(added(ErrorCode.NONE)) is ErrorCode.NONE
    not_tried, why = ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert code_of(added(not_tried, why)) is why
    assert code_of(added(not_tried)) is not_tried
