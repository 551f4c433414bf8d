"""The requests of transactional producers, as clients of each version send them and are answered."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from purgatorio.broker.api import add_partitions_to_txn, end_txn, init_producer_id
from purgatorio.broker.metadata.image import Topic
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.protocol.api import APIS, decode_response, encode_response
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.transaction_state import TransactionState as State
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import topic
from tests.broker.txn.harness import ID, A, B, TransactionHarness, state_topic

NONE = ErrorCode.NONE


def topics(*others: Topic) -> list[Topic]:
    return [state_topic(), topic("orders", partitions=2, replicas=(2,), leader=2), *others]


@pytest.fixture
def broker() -> TransactionHarness:
    harness = TransactionHarness()
    harness.set_topics(*topics())
    return harness


def ask(broker: TransactionHarness, api: ModuleType, version: int, request: Any) -> Any:
    """Return the answer as the client decodes it; None if the request is parked."""
    replies = Replies()
    api.handle(broker.transactions, context(api.API.key, version), request, replies)
    return travel(api, version, replies.only) if replies.said else None


def travel(api: ModuleType, version: int, response: Any) -> Any:
    key = api.API.key
    return decode_response(key, version, b"".join(encode_response(key, version, 7, response))[4:])[1]


# --- InitProducerId ---


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_producer_gets_an_id_in_each_version(broker: TransactionHarness, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    assert version in APIS[init_producer_id.API.key].versions
    for epoch in (0, 1):
        answer = ask(broker, init_producer_id, version, request)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, 100, epoch)


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_producer_is_told_in_the_words_of_its_version(
    broker: TransactionHarness, version: int, code: ErrorCode
) -> None:
    """KIP-588."""
    old = broker.init().producer
    broker.init()
    request = InitProducerIdRequest(
        transactional_id=ID, transaction_timeout_ms=60_000, producer_id=old.producer_id, producer_epoch=0
    )
    answer = ask(broker, init_producer_id, version, request)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


def test_an_empty_transactional_id_is_not_null(broker: TransactionHarness) -> None:
    empty = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    assert ask(broker, init_producer_id, 4, empty).error_code == ErrorCode.INVALID_REQUEST
    null = ask(broker, init_producer_id, 4, InitProducerIdRequest(transactional_id=None))
    assert (null.error_code, null.producer_id, null.producer_epoch) == (NONE, 100, 0)


# --- AddPartitionsToTxn of clients ---


def add(
    broker: TransactionHarness, producer: ProducerIdAndEpoch, *partitions: int, version: int = 3, name: str = "orders"
) -> Any:
    return ask(
        broker,
        add_partitions_to_txn,
        version,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=list(partitions))],
        ),
    )


def codes(results: Any) -> list[int]:
    return [each.partition_error_code for result in results for each in result.results_by_partition]


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_in_each_version_of_clients(broker: TransactionHarness, version: int) -> None:
    producer = broker.init().producer
    assert codes(add(broker, producer, 0, 1, version=version).results_by_topic_v3_and_below) == [NONE, NONE]
    assert list(broker.value().partitions) == [A, B]
    assert broker.value().version == 1


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_producer_adds_nothing(broker: TransactionHarness, version: int, code: ErrorCode) -> None:
    producer = broker.init().producer
    broker.init()
    assert codes(add(broker, producer, 0, 1, version=version).results_by_topic_v3_and_below) == [code, code]


def test_an_unknown_partition_keeps_the_others_out(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    answer = add(broker, producer, 0, 2)
    assert codes(answer.results_by_topic_v3_and_below) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert broker.value().state is State.EMPTY
    missing = add(broker, producer, 0, name="missing")
    assert codes(missing.results_by_topic_v3_and_below) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_no_partitions_open_no_transaction(broker: TransactionHarness) -> None:
    assert add(broker, broker.init().producer).results_by_topic_v3_and_below[0].results_by_partition == []
    assert broker.value().state is State.EMPTY


def test_an_id_is_needed(broker: TransactionHarness) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    answer = ask(broker, add_partitions_to_txn, 3, request)
    assert codes(answer.results_by_topic_v3_and_below) == [ErrorCode.INVALID_REQUEST]
    assert ask(broker, end_txn, 3, EndTxnRequest()).error_code == ErrorCode.INVALID_REQUEST


# --- AddPartitionsToTxn of leaders ---


def transaction(
    producer: ProducerIdAndEpoch, *partitions: int, verify_only: bool, transactional_id: str = ID
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name="orders", partitions=list(partitions))],
    )


@pytest.mark.parametrize("version", [4, 5])
def test_leaders_add_and_verify_partitions_of_many_transactions(broker: TransactionHarness, version: int) -> None:
    """KIP-890."""
    producer, other = broker.init().producer, broker.init(transactional_id="other").producer
    request = AddPartitionsToTxnRequest(
        transactions=[
            transaction(producer, 0, verify_only=False),
            transaction(producer, 0, 1, verify_only=True),
            transaction(other, 0, 7, verify_only=False, transactional_id="other"),
            transaction(other, 0, verify_only=True, transactional_id="unknown"),
        ]
    )
    answer = ask(broker, add_partitions_to_txn, version, request)
    assert answer.error_code == NONE
    assert [each.transactional_id for each in answer.results_by_transaction] == [ID, ID, "other", "unknown"]
    assert [codes(each.topic_results) for each in answer.results_by_transaction] == [
        [NONE],
        [NONE, ErrorCode.TRANSACTION_ABORTABLE],
        [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
    ]
    assert broker.value().version == 2


def test_a_leader_is_answered_when_all_its_transactions_are() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    broker.set_topics(state_topic((1, 2)), topic("orders", partitions=2, replicas=(2,), leader=2))
    init = broker.init()
    broker.commit()
    request = AddPartitionsToTxnRequest(
        transactions=[
            transaction(init.producer, 0, verify_only=False),
            transaction(init.producer, 1, verify_only=False),
        ]
    )
    replies = Replies()
    add_partitions_to_txn.handle(broker.transactions, context(24, 4), request, replies)
    broker.commit()
    assert replies.said == [], "the second one waits for the first"
    broker.commit()
    answer = travel(add_partitions_to_txn, 4, replies.only)
    assert [codes(each.topic_results) for each in answer.results_by_transaction] == [[NONE], [NONE]]


def test_a_leader_that_asks_nothing_is_answered(broker: TransactionHarness) -> None:
    assert ask(broker, add_partitions_to_txn, 4, AddPartitionsToTxnRequest()).results_by_transaction == []


def test_transactions_beyond_the_limit_of_a_request_are_to_be_asked_for_again(
    broker: TransactionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may have to be written."""
    monkeypatch.setattr(add_partitions_to_txn, "MAX_TRANSACTIONS", 1)
    producer = broker.init().producer
    request = AddPartitionsToTxnRequest(transactions=[transaction(producer, nth, verify_only=False) for nth in (0, 1)])
    answer = ask(broker, add_partitions_to_txn, 5, request)
    assert [codes(each.topic_results) for each in answer.results_by_transaction] == [
        [NONE],
        [ErrorCode.COORDINATOR_NOT_AVAILABLE],
    ]
    assert [*broker.value().partitions] == [A]


# --- EndTxn ---


def end(producer: ProducerIdAndEpoch, commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_is_ended_in_each_version(broker: TransactionHarness, version: int) -> None:
    producer = broker.init().producer
    broker.add(producer)
    answer = ask(broker, end_txn, version, end(producer))
    assert answer.error_code == NONE
    bumps = version == 5
    assert (answer.producer_id, answer.producer_epoch) == ((100, 1) if bumps else (-1, -1))
    assert broker.value().producer_epoch == bumps


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_producer_ends_nothing(broker: TransactionHarness, version: int, code: ErrorCode) -> None:
    producer = broker.init().producer
    broker.add(broker.init().producer)
    assert ask(broker, end_txn, version, end(producer)).error_code == code
    assert broker.value().state is State.ONGOING


def test_a_refused_end_tells_no_producer_id(broker: TransactionHarness) -> None:
    answer = ask(broker, end_txn, 5, end(broker.init().producer))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.INVALID_TXN_STATE, -1, -1)
