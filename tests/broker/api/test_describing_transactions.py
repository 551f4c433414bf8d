"""DescribeTransactions and ListTransactions: what admin clients see of a coordinator's transactional ids."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import describe_transactions, list_transactions
from purgatorio.broker.time import long_work
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_transactions import DescribeTransactionsRequest
from purgatorio.protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.api.harness import Replies, context
from tests.broker.api.test_transaction_apis import travel
from tests.broker.txn.harness import ID, TIMEOUT_MS, A, B, TransactionHarness

NONE = ErrorCode.NONE


@pytest.fixture
def broker() -> TransactionHarness:
    return TransactionHarness()


def describe(broker: TransactionHarness, *ids: str) -> list[Any]:
    replies = Replies()
    request = DescribeTransactionsRequest(transactional_ids=list(ids))
    describe_transactions.handle(broker.transactions, context(65, 0), request, replies)
    return list(travel(describe_transactions, 0, replies.only).transaction_states)


def listed(broker: TransactionHarness, version: int = 2, **fields: Any) -> Any:
    replies = Replies()
    list_transactions.handle(broker.transactions, context(66, version), ListTransactionsRequest(**fields), replies)
    return travel(list_transactions, version, replies.only)


def ids(broker: TransactionHarness, **fields: Any) -> list[str]:
    answer = listed(broker, **fields)
    assert answer.error_code == NONE
    return [each.transactional_id for each in answer.transaction_states]


# --- describe ---


def test_an_open_transaction_has_its_partitions_and_its_start(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    (empty,) = describe(broker, ID)
    assert (empty.transaction_state, empty.transaction_start_time_ms, empty.topics) == ("Empty", -1, [])
    broker.add(producer, A, B)
    (found,) = describe(broker, ID)
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (NONE, "Ongoing", TIMEOUT_MS)
    assert (found.producer_id, found.producer_epoch) == (100, 0)
    assert found.transaction_start_time_ms == broker.clock.wall_ms()
    assert [(each.topic, each.partitions) for each in found.topics] == [("orders", [0, 1])]


def test_a_decided_transaction_has_the_partitions_without_a_marker(broker: TransactionHarness) -> None:
    producer = broker.init().producer
    broker.add(producer, A, B)
    broker.end(producer)
    broker.ends.write(A)
    (found,) = describe(broker, ID)
    assert found.transaction_state == "PrepareCommit"
    assert [(each.topic, each.partitions) for each in found.topics] == [("orders", [1])]
    broker.ends.write(B)
    (found,) = describe(broker, ID)
    assert (found.transaction_state, found.topics) == ("CompleteCommit", [])


def test_ids_that_cannot_be_described_have_an_error_each(broker: TransactionHarness) -> None:
    codes = [each.error_code for each in describe(broker, "", "unknown")]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
    broker.elect(2, 1, (1, 2))
    assert describe(broker, ID)[0].error_code == ErrorCode.NOT_COORDINATOR


def test_an_id_whose_first_record_is_not_committed_is_unknown() -> None:
    broker = TransactionHarness(replicas=(1, 2))
    broker.init()
    assert describe(broker, ID)[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert ids(broker) == []


# --- list ---


@pytest.fixture
def three(broker: TransactionHarness) -> TransactionHarness:
    """Broker 1 with an empty id, an open transaction and a complete one, 10 s old."""
    for transactional_id in ("empty-1", "open-1", "complete-2"):
        broker.init(transactional_id=transactional_id)
    broker.add(ProducerIdAndEpoch(102, 0), transactional_id="complete-2")
    broker.end(ProducerIdAndEpoch(102, 0), transactional_id="complete-2")
    broker.ends.write()
    broker.advance_ms(10_000)
    broker.add(ProducerIdAndEpoch(101, 0), transactional_id="open-1")
    return broker


@pytest.mark.parametrize("version", range(3))
def test_all_transactions_are_listed_without_filters(three: TransactionHarness, version: int) -> None:
    answer = listed(three, version)
    found = [(each.transactional_id, each.producer_id, each.transaction_state) for each in answer.transaction_states]
    assert found == [("empty-1", 100, "Empty"), ("open-1", 101, "Ongoing"), ("complete-2", 102, "CompleteCommit")]


def test_filters_by_state_and_producer_id(three: TransactionHarness) -> None:
    assert ids(three, state_filters=["Ongoing", "Empty"]) == ["empty-1", "open-1"]
    assert ids(three, producer_id_filters=[102, 999]) == ["complete-2"]
    assert ids(three, producer_id_filters=[102], state_filters=["Ongoing"]) == []


def test_unknown_states_are_told_and_match_nothing(three: TransactionHarness) -> None:
    answer = listed(three, state_filters=["Ongoing", "ongoing", "Lost", "ongoing"])
    assert answer.unknown_state_filters == ["ongoing", "Lost"]
    assert [each.transactional_id for each in answer.transaction_states] == ["open-1"]
    assert ids(three, state_filters=["Lost"]) == []


def test_a_filter_by_duration_lists_those_that_began_longer_ago(three: TransactionHarness) -> None:
    """KIP-994."""
    assert ids(three, duration_filter_ms=10_000) == []
    assert ids(three, duration_filter_ms=9_999) == ["complete-2"]
    three.advance_ms(1)
    assert ids(three, duration_filter_ms=0) == ["open-1", "complete-2"]


def test_a_filter_by_expression_matches_whole_ids(three: TransactionHarness) -> None:
    """KIP-1152."""
    assert ids(three, transactional_id_pattern=".*-1") == ["empty-1", "open-1"]
    assert ids(three, transactional_id_pattern="open") == []
    assert ids(three, transactional_id_pattern="") == ["empty-1", "open-1", "complete-2"]
    answer = listed(three, transactional_id_pattern="(")
    assert (answer.error_code, answer.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


def test_nothing_is_listed_while_a_partition_is_loaded(three: TransactionHarness) -> None:
    three.elect(2, 1, (1, 2))
    assert ids(three) == []
    three.elect(1, 2, (1, 2))
    assert listed(three).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    three.work()
    assert len(ids(three)) == 3


def test_a_long_list_is_made_in_steps(broker: TransactionHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "SLICE", 4)
    for number in range(5):
        broker.init(transactional_id=f"id-{number}")
    replies = Replies()
    list_transactions.handle(broker.transactions, context(66, 2), ListTransactionsRequest(), replies)
    steps = broker.transaction_work.turns()
    next(steps)
    assert replies.said == []
    for _ in steps:
        pass
    assert len(replies.only.transaction_states) == 5
    pattern = ListTransactionsRequest(transactional_id_pattern="id-[03]")
    found = Replies()
    list_transactions.handle(broker.transactions, context(66, 2), pattern, found)
    for _ in broker.transaction_work.turns():
        pass
    assert [each.transactional_id for each in found.only.transaction_states] == ["id-0", "id-3"]
