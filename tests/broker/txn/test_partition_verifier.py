"""Leaders ask the coordinator of a transaction, here or on another broker, and are always answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator import broker_calls
from purgatorio.broker.coordinator.broker_calls import MAX_REQUESTS, BrokerCalls
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.replica.producing.verification import VerifyPartitions
from purgatorio.broker.txn.partition_verifier import (
    MAX_RETRIES,
    MAX_TRANSACTIONS_PER_REQUEST,
    RETRY_MS,
    PartitionVerifier,
)
from purgatorio.broker.txn.partitions import Verified
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from purgatorio.purgatory import ActionQueue, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.time.by_hand import HandWork
from tests.error_log import ErrorLog

HERE = 1
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
BILLS_0 = TopicPartition("bills", 0)


def coordinators(*brokers: int) -> Topic:
    """The coordinators' topic, led by these brokers."""
    states = tuple(PartitionState(broker, 0, (1, 2, 3), (BrokerIncarnation(1, 1),)) for broker in brokers)
    return Topic(TRANSACTION_STATE_TOPIC, b"\1" * 16, states)


@dataclass
class Asked:
    """A request to another broker, which the test answers."""

    broker_id: int
    request: AddPartitionsToTxnRequest
    done: Callable[[Any, Exception | None], None]

    @property
    def transactional_ids(self) -> list[str]:
        return [each.transactional_id for each in self.request.transactions]

    def answer(self, code: int = 0, *, by_partition: dict[TopicPartition, int] | None = None) -> None:
        codes = by_partition or {}
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=codes.get(TopicPartition(topic.name, index), code),
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in self.request.transactions
        ]
        self.done(AddPartitionsToTxnResponse(results_by_transaction=results), None)


@dataclass
class Called:
    """A call of this broker's coordinator, which the test answers."""

    transactional_id: str
    producer: tuple[int, int]
    partitions: Sequence[TopicPartition]
    verify_only: bool
    done: Verified

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.done(dict.fromkeys(self.partitions, code))


Answer = dict[TopicPartition, ErrorCode]


class World:
    """A verifier between the leaders of its broker and coordinators that the test plays."""

    def __init__(self, *brokers: int) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms)
        self.image = ClusterImage(1, "test")
        self.elect(*brokers)
        self.asked: list[Asked] = []
        self.called: list[Called] = []
        self.raises: Exception | None = None
        self.refuses: Exception | None = None
        self.purgatory: Purgatory[Any] = Purgatory("Verification", self.timer, actions=ActionQueue())
        calls = BrokerCalls(
            HERE,
            store=self,
            ask=self._ask,
            purgatories=SimpleNamespace(of=lambda row: self.purgatory),
            work=HandWork().own,
        )
        self.verifier = PartitionVerifier(calls, self)  # type: ignore[arg-type]  # a fake

    def elect(self, *brokers: int) -> None:
        self.image = self.image.with_topics([coordinators(*brokers)] if brokers else [])

    def _ask(self, broker_id: int, api_key: ApiKey, version: int, message: Any, done: Callable[..., None]) -> None:
        assert (api_key, version) == (ApiKey.ADD_PARTITIONS_TO_TXN, 5)
        if self.refuses is not None:
            done(None, self.refuses)
            return
        self.asked.append(Asked(broker_id, message, done))

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        done: Verified,
    ) -> None:
        if self.raises is not None:
            raise self.raises
        self.called.append(Called(transactional_id, (producer_id, producer_epoch), partitions, verify_only, done))

    def verify(self, *partitions: TopicPartition, name: str = "billing-1", add: bool = False) -> list[Answer]:
        answers: list[Answer] = []
        self.verifier(name, 7, 3, partitions or (ORDERS_0,), add=add, done=lambda codes: answers.append(dict(codes)))
        return answers

    def advance_ms(self, delta_ms: int) -> None:
        self.clock.advance_ms(delta_ms)
        self.timer.advance(self.clock.now_ms())

    def only(self) -> Asked:
        (asked,) = self.asked
        self.asked.clear()
        return asked


def verifies_partitions(verifier: PartitionVerifier) -> VerifyPartitions:
    """The types agree."""
    return verifier


@pytest.mark.parametrize("add", [False, True])
def test_the_coordinator_of_this_broker_is_called(add: bool) -> None:
    world = World(HERE)
    answers = world.verify(ORDERS_0, BILLS_0, add=add)
    (called,) = world.called
    assert (called.transactional_id, called.producer, called.verify_only) == ("billing-1", (7, 3), not add)
    assert called.partitions == (ORDERS_0, BILLS_0)
    called.done({ORDERS_0: ErrorCode.NONE, BILLS_0: ErrorCode.TRANSACTION_ABORTABLE})
    assert answers == [{ORDERS_0: ErrorCode.NONE, BILLS_0: ErrorCode.TRANSACTION_ABORTABLE}]
    assert world.asked == []


@pytest.mark.parametrize("add", [False, True])
def test_the_coordinator_of_another_broker_is_asked(add: bool) -> None:
    world = World(2)
    answers = world.verify(ORDERS_0, BILLS_0, ORDERS_1, add=add)
    asked = world.only()
    (transaction,) = asked.request.transactions
    assert (asked.broker_id, transaction.transactional_id, transaction.verify_only) == (2, "billing-1", not add)
    assert (transaction.producer_id, transaction.producer_epoch) == (7, 3)
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("orders", [0, 1]), ("bills", [0])]
    asked.answer(by_partition={BILLS_0: ErrorCode.TRANSACTION_ABORTABLE})
    assert answers == [{ORDERS_0: 0, ORDERS_1: 0, BILLS_0: ErrorCode.TRANSACTION_ABORTABLE}]


def test_the_coordinator_is_the_leader_of_the_ids_partition() -> None:
    brokers = [2, 3, 4, 5, 6, 7]
    world = World(*brokers)
    for name in ("billing-1", "orders-app-7", "ü"):
        world.verify(name=name)
        assert world.only().broker_id == brokers[coordinator_partition(name, len(brokers))]


def test_questions_that_wait_for_a_busy_coordinator_share_its_next_request() -> None:
    world = World(2)
    answers = [world.verify(name=f"billing-{nth}") for nth in range(20)]
    first, world.asked = world.asked, []
    assert [len(asked.transactional_ids) for asked in first] == [1] * MAX_REQUESTS
    first[0].answer()
    shared = world.only()
    assert shared.transactional_ids == [f"billing-{nth}" for nth in range(MAX_REQUESTS, 20)]
    for asked in (*first[1:], shared):
        asked.answer()
    assert answers == [[{ORDERS_0: ErrorCode.NONE}]] * 20


def test_a_transaction_is_in_a_request_once() -> None:
    """The answer tells two apart by nothing."""
    world = World(2)
    for _ in range(MAX_REQUESTS):
        world.verify(name="other")
    busy, world.asked = world.asked, []
    first = world.verify(ORDERS_0)
    second = world.verify(ORDERS_1, add=True)
    third = world.verify(BILLS_0, name="billing-2")
    busy[0].answer()
    busy[1].answer()
    one, other = world.asked
    assert (one.transactional_ids, other.transactional_ids) == (["billing-1"], ["billing-1", "billing-2"])
    one.answer(ErrorCode.TRANSACTION_ABORTABLE)
    other.answer()
    assert first == [{ORDERS_0: ErrorCode.TRANSACTION_ABORTABLE}]
    assert (second, third) == ([{ORDERS_1: ErrorCode.NONE}], [{BILLS_0: ErrorCode.NONE}])


def test_a_request_has_a_bounded_number_of_transactions() -> None:
    world = World(2)
    count = MAX_REQUESTS + MAX_TRANSACTIONS_PER_REQUEST + 1
    answers = [world.verify(name=f"billing-{nth}") for nth in range(count)]
    sizes = []
    while world.asked:
        asked = world.asked.pop(0)
        sizes.append(len(asked.transactional_ids))
        asked.answer()
    assert sizes == [1] * MAX_REQUESTS + [MAX_TRANSACTIONS_PER_REQUEST, 1]
    assert all(len(each) == 1 for each in answers)


def test_questions_beyond_the_limit_are_to_be_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_calls, "MAX_CALLS", 2)
    world = World(HERE)
    waiting = world.verify(), world.verify()
    assert world.verify() == [{ORDERS_0: ErrorCode.NETWORK_EXCEPTION}]
    world.called[0].answer()
    assert waiting[0] == [{ORDERS_0: ErrorCode.NONE}]
    assert world.verify() == [], "there is room again"


# --- errors ---


@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NOT_COORDINATOR])
def test_the_coordinators_error_is_passed_on(code: ErrorCode) -> None:
    """The guard of the leader has the words for clients (KAFKA-16386)."""
    here, there = World(HERE), World(2)
    answers = here.verify(), there.verify()
    here.called[0].answer(code)
    there.only().answer(code)
    assert answers == ([{ORDERS_0: code}], [{ORDERS_0: code}])


@pytest.mark.parametrize("error", [ConnectionResetError("lost"), TimeoutError("late"), OSError("refused")])
def test_a_lost_coordinator_is_to_be_asked_again_by_the_client(error: Exception) -> None:
    world = World(2)
    answers = world.verify(ORDERS_0, BILLS_0)
    world.only().done(None, error)
    assert answers == [dict.fromkeys((ORDERS_0, BILLS_0), ErrorCode.NETWORK_EXCEPTION)]


@pytest.mark.parametrize(
    "response",
    [AddPartitionsToTxnResponse(), AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)],
)
def test_a_question_that_an_answer_leaves_out_is_to_be_asked_again(response: AddPartitionsToTxnResponse) -> None:
    world = World(2)
    answers = world.verify()
    world.only().done(response, None)
    assert answers == [{ORDERS_0: ErrorCode.NETWORK_EXCEPTION}]


@pytest.mark.parametrize("brokers", [(), (NO_LEADER,)])
def test_without_a_coordinator_the_client_is_to_ask_again(brokers: tuple[int, ...]) -> None:
    assert World(*brokers).verify() == [{ORDERS_0: ErrorCode.NETWORK_EXCEPTION}]


def test_questions_that_wait_follow_the_coordinator() -> None:
    world = World(2)
    answers = [world.verify(name=f"billing-{nth}") for nth in range(MAX_REQUESTS + 2)]
    first, world.asked = world.asked, []
    world.elect(HERE)
    for asked in first:
        asked.done(None, ConnectionResetError("lost"))
    assert world.asked == []
    for called in world.called:
        called.answer()
    assert answers == [[{ORDERS_0: ErrorCode.NETWORK_EXCEPTION}]] * MAX_REQUESTS + [[{ORDERS_0: ErrorCode.NONE}]] * 2


def test_requests_that_fail_at_once_fail_one_after_the_other() -> None:
    """However many wait: as when this broker stops."""
    world = World(2)
    answers = [world.verify() for _ in range(2_000)]
    first, world.asked = world.asked, []
    world.refuses = ConnectionAbortedError("this broker stops")
    for asked in first:
        asked.done(None, world.refuses)
    assert answers == [[{ORDERS_0: ErrorCode.NETWORK_EXCEPTION}]] * 2_000


def test_a_question_is_answered_after_a_bug_of_the_coordinator(error_log: ErrorLog) -> None:
    world = World(HERE)
    world.raises = ZeroDivisionError()
    assert world.verify() == [{ORDERS_0: ErrorCode.NETWORK_EXCEPTION}]
    error_log.expect("ZeroDivisionError")


def test_a_leader_that_fails_to_note_an_answer_keeps_it_from_no_other(error_log: ErrorLog) -> None:
    world = World(2)
    for _ in range(MAX_REQUESTS):
        world.verify(name="other")
    busy, world.asked = world.asked, []

    def fails(codes: object) -> None:
        raise ZeroDivisionError

    world.verifier("billing-1", 7, 3, [ORDERS_0], add=False, done=fails)
    answers = world.verify(name="billing-2")
    busy[0].answer()
    world.only().answer()
    assert answers == [{ORDERS_0: ErrorCode.NONE}]
    error_log.expect("ZeroDivisionError")


# --- the transaction before has not ended ---


@pytest.mark.parametrize("there", [False, True])
def test_a_question_is_repeated_while_the_transaction_before_ends(there: bool) -> None:
    world = World(2 if there else HERE)
    answers = world.verify()
    for code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE):
        if there:
            world.only().answer(code)
        else:
            world.called.pop().answer(code)
        if code:
            world.advance_ms(RETRY_MS - 1)
            (parked,) = world.purgatory.operations()
            assert in_words(parked.causes) == (
                "__transaction_state-0: the verification of the transaction of billing-1 waits for "
                f"broker {2 if there else HERE}, which leads it: 19 ms, first try, CONCURRENT_TRANSACTIONS"
            )
            assert (world.asked, world.called) == ([], [])
            world.advance_ms(1)
    assert answers == [{ORDERS_0: ErrorCode.NONE}]


def test_a_client_is_told_after_100_ms_that_the_transaction_before_has_not_ended() -> None:
    world = World(2)
    answers = world.verify()
    for _ in range(MAX_RETRIES):
        world.only().answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert answers == []
        world.advance_ms(RETRY_MS)
    world.only().answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert answers == [{ORDERS_0: ErrorCode.CONCURRENT_TRANSACTIONS}]
    assert MAX_RETRIES * RETRY_MS == 100
    assert world.timer.size == 0


def test_questions_and_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(HERE)
    for _ in range(3):
        world.verify(ORDERS_0)
    world.called[0].answer()
    world.called[1].answer(ErrorCode.TRANSACTION_ABORTABLE)
    monkeypatch.setattr(broker_calls, "MAX_CALLS", 1)
    world.verify(ORDERS_0)
    assert (world.verifier.verification_count, world.verifier.failure_count) == (4, 2)
