"""The ends of logs are asked of their leaders, here and elsewhere, until they can be told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator.broker_calls import BrokerCalls
from purgatorio.broker.coordinator.end_offsets import MAX_TRIES, RETRY_MS, EndOffset, EndOffsets
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from purgatorio.purgatory import Purgatory, Timer
from tests.broker.replica.harness import ORDERS, Harness, batch, topic
from tests.broker.time.by_hand import HandWork

OK = ErrorCode.NONE
BILLS = [TopicPartition("bills", number) for number in range(3)]


class Peers(Harness):
    """Broker 1 leads orders; broker 2 leads bills, and answers as the test says."""

    def __init__(self) -> None:
        super().__init__()
        timer = Timer(self.clock.now_ms)
        self.timers.append(timer)
        self.lead_bills(2)
        self.asked: list[tuple[int, list[TopicPartition]]] = []
        self.answers: dict[TopicPartition, EndOffset] = {}
        self.is_down = False
        self.purgatory: Purgatory[Any] = Purgatory("EndOffset", timer, actions=self.actions)
        self.calls = BrokerCalls(
            1,
            store=self,
            ask=self._ask,
            purgatories=SimpleNamespace(of=lambda row: self.purgatory),
            work=HandWork().own,
        )
        self.ends = EndOffsets(self.calls, self.replicas)

    def lead_bills(self, leader: int) -> None:
        self.set_topics(
            topic("orders", replicas=(1,)),
            topic("bills", partitions=3, leader=leader, replicas=(2, 3), topic_id=b"b" * 16),
        )

    def _ask(
        self, broker_id: int, api: ApiKey, version: int, request: Any, done: Callable[[Any, Exception | None], None]
    ) -> None:
        assert (api, isinstance(request, ListOffsetsRequest)) == (ApiKey.LIST_OFFSETS, True)
        assert {each.timestamp for named in request.topics for each in named.partitions} == {-1}
        tps = [
            TopicPartition(named.name, each.partition_index) for named in request.topics for each in named.partitions
        ]
        self.asked.append((broker_id, tps))
        if self.is_down:
            done(None, ConnectionError())
            return
        told = [(tp, self.answers[tp]) for tp in tps if tp in self.answers]
        partitions = [
            ListOffsetsPartitionResponse(partition_index=tp.partition, error_code=end.error_code, offset=end.offset)
            for tp, end in told
        ]
        done(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="bills", partitions=partitions)]), None)

    def find(self, *tps: TopicPartition) -> list[dict[TopicPartition, EndOffset]]:
        found: list[dict[TopicPartition, EndOffset]] = []
        self.ends.find(tps, found.append)
        return found


@pytest.fixture
def peers() -> Peers:
    return Peers()


def test_this_broker_tells_its_own_high_watermarks(peers: Peers) -> None:
    peers.produce(ORDERS, records=batch(b"a", b"b"))
    assert peers.find(ORDERS) == [{ORDERS: EndOffset(OK, 2)}]
    assert peers.asked == []


def test_others_are_asked_once_for_all_their_partitions(peers: Peers) -> None:
    peers.answers = {tp: EndOffset(OK, 10 + tp.partition) for tp in BILLS}
    assert peers.find(*BILLS, ORDERS) == [{**peers.answers, ORDERS: EndOffset(OK, 0)}]
    assert peers.asked == [(2, BILLS)]


def test_nothing_is_asked_for_nothing(peers: Peers) -> None:
    assert (peers.find(), peers.asked) == ([{}], [])


def test_requests_are_of_limited_size(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndOffsets, "max_ids", 2)
    peers.answers = dict.fromkeys(BILLS, EndOffset(OK, 1))
    assert peers.find(*BILLS) == [peers.answers]
    assert [len(tps) for _, tps in peers.asked] == [2, 1]


def test_what_does_not_exist_is_an_error_at_once(peers: Peers) -> None:
    unknown = TopicPartition("orders", 9)
    assert peers.find(unknown) == [{unknown: EndOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}]


def test_a_leader_that_has_moved_is_found_again(peers: Peers) -> None:
    peers.answers = {BILLS[0]: EndOffset(OK, 1), BILLS[1]: EndOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER)}
    found = peers.find(*BILLS[:2])
    peers.lead_bills(3)
    peers.answers[BILLS[1]] = EndOffset(OK, 2)
    peers.advance_ms(RETRY_MS - 1)
    assert found == []
    peers.advance_ms(1)
    assert found == [{BILLS[0]: EndOffset(OK, 1), BILLS[1]: EndOffset(OK, 2)}]
    assert peers.asked == [(2, BILLS[:2]), (3, BILLS[1:2])]


@pytest.mark.parametrize(("leader", "error"), [(2, ErrorCode.NETWORK_EXCEPTION), (-1, ErrorCode.LEADER_NOT_AVAILABLE)])
def test_a_leader_that_stays_away_is_an_error_in_the_end(peers: Peers, leader: int, error: ErrorCode) -> None:
    peers.lead_bills(leader)
    peers.is_down = True
    found = peers.find(BILLS[0])
    for _ in range(MAX_TRIES - 1):
        assert found == []
        peers.advance_ms(RETRY_MS)
    assert found == [{BILLS[0]: EndOffset(error)}]


def test_a_new_leader_does_not_tell_an_end_that_is_too_low(peers: Peers) -> None:
    """KIP-207: its high watermark may be below what the leader before has told."""
    peers.set_topics(topic("orders", replicas=(1, 2), leader=1, leader_epoch=1))
    partition = peers.partition(ORDERS)
    partition.leader_epoch_start_offset = 5
    found = peers.find(ORDERS)
    assert found == []
    partition.leader_epoch_start_offset = 0
    peers.advance_ms(RETRY_MS)
    assert found == [{ORDERS: EndOffset(OK, 0)}]


def test_a_search_waits_in_the_purgatory_until_a_leader_is_elected(peers: Peers) -> None:
    peers.lead_bills(-1)
    found = peers.find(*BILLS, ORDERS)
    (parked,) = peers.purgatory.operations()
    assert in_words(parked.causes) == (
        "bills-0: the question for the end of the log, with 2 others, waits for a leader: 0 ms, first try, no leader"
    )
    peers.answers = dict.fromkeys(BILLS, EndOffset(OK, 7))
    peers.lead_bills(2)
    peers.calls.image_changed(peers.image)
    assert found == [{**peers.answers, ORDERS: EndOffset(OK, 0)}]
    assert peers.asked == [(2, BILLS)]


def test_a_broker_that_stops_answers_what_waits(peers: Peers) -> None:
    peers.lead_bills(-1)
    found = peers.find(BILLS[0])
    peers.calls.stop()
    peers.purgatory.shutdown()
    assert found == [{BILLS[0]: EndOffset(ErrorCode.NETWORK_EXCEPTION)}]
