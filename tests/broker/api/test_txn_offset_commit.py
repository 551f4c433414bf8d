"""TxnOffsetCommit: what is stored until the transaction ends, what is refused, and when the producer is answered."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import offset_commit, offset_fetch, txn_offset_commit
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group import txn_offset_manager
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from purgatorio.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.api.group_requests import Coordinator, travel
from tests.broker.api.test_offset_commit import ORDERS_ID, codes, offset
from tests.broker.api.test_offset_commit import request as plain_commit
from tests.broker.api.test_offset_fetch import group, seen, single
from tests.broker.group.harness import PARTITION, offsets_topic
from tests.broker.replica.harness import topic

ALL = range(7)
MEMBERSHIP = range(3, 7)
COMMIT, ABORT = EndMarker(True, 0), EndMarker(False, 0)
PRODUCER_ID = 1000


def request(*offsets: int, name: str = "orders", metadata: str | None = "", **fields: Any) -> TxnOffsetCommitRequest:
    """Commit these offsets for the partitions 0, 1, … of a topic."""
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=each, committed_metadata=metadata)
        for index, each in enumerate(offsets)
    ]
    named = {"transactional_id": "billing-1", "group_id": "app", "producer_id": PRODUCER_ID, "producer_epoch": 0}
    topic_id = fields.pop("topic_id", ORDERS_ID)
    topics = [TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)]
    return TxnOffsetCommitRequest(**{**named, **fields}, topics=topics)


def end(broker: Coordinator, marker: EndMarker = COMMIT, epoch: int = 0) -> list[ErrorCode]:
    """Have the coordinator of the group write a marker."""
    done: list[ErrorCode] = []
    broker.groups.txn_offsets.end(PARTITION, PRODUCER_ID, epoch, marker, done.append)
    return done


@pytest.mark.parametrize("version", ALL)
def test_offsets_are_visible_when_the_transaction_is_committed_in_every_version(version: int) -> None:
    broker = Coordinator()
    assert codes(broker.ask(txn_offset_commit, version, request(7, 8))) == [0, 0]
    assert (offset(broker), offset(broker, partition=1)) == (-1, -1)
    assert end(broker) == [ErrorCode.NONE]
    assert (offset(broker), offset(broker, partition=1)) == (7, 8)


def test_offsets_of_an_aborted_transaction_are_never_visible() -> None:
    broker = Coordinator()
    broker.ask(txn_offset_commit, 3, request(7))
    assert end(broker, ABORT) == [ErrorCode.NONE]
    assert offset(broker) == -1


def test_a_commit_is_answered_when_the_replicas_have_it() -> None:
    broker = Coordinator(replicas=(1, 2))
    replies = broker.post(txn_offset_commit, 3, request(7))
    assert replies.said == []
    broker.follow((2, 1), tp=PARTITION)
    assert codes(travel(3, replies.only)) == [0]


def test_kafka_17507_a_marker_is_answered_when_the_offsets_are_visible() -> None:
    broker = Coordinator(replicas=(1, 2))
    broker.post(txn_offset_commit, 3, request(7))
    done = end(broker)
    broker.follow((2, 1), tp=PARTITION)
    assert (done, offset(broker)) == ([], -1)
    broker.follow((2, 2), tp=PARTITION)
    assert (done, offset(broker)) == ([ErrorCode.NONE], 7)


def test_a_marker_that_timed_out_takes_effect_when_it_is_replicated_after_all() -> None:
    broker = Coordinator(replicas=(1, 2))
    broker.post(txn_offset_commit, 3, request(7))
    done = end(broker)
    broker.advance_ms(5_001)
    assert (done, offset(broker)) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], -1)
    again = end(broker)
    broker.follow((2, 3), tp=PARTITION)
    assert (again, offset(broker)) == ([ErrorCode.NONE], 7)


def test_kafka_15784_an_append_that_is_refused_leaves_nothing_behind() -> None:
    broker = Coordinator()
    end(broker, epoch=5)  # the log knows a newer epoch of the producer
    assert codes(broker.ask(txn_offset_commit, 3, request(7))) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert not broker.groups.coordinator.shard_of("app").offsets.total
    assert codes(broker.ask(txn_offset_commit, 3, request(7, producer_epoch=5))) == [0]


def test_the_marker_of_an_old_coordinator_is_refused() -> None:
    broker = Coordinator()
    end(broker, EndMarker(True, 4))
    broker.ask(txn_offset_commit, 3, request(7))
    assert end(broker, EndMarker(False, 3)) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert end(broker, EndMarker(True, 4)) == [ErrorCode.NONE]
    assert offset(broker) == 7


def test_markers_for_a_partition_that_is_led_elsewhere_or_loaded_are_refused() -> None:
    broker = Coordinator()
    broker.ask(txn_offset_commit, 3, request(7))
    broker.elect(2, 1)
    assert end(broker) == [ErrorCode.NOT_COORDINATOR]
    broker.elect(1, 2, replicas=(1,))
    assert end(broker) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


# --- the transaction's coordinator is asked (KAFKA-15449) ---


@pytest.mark.parametrize("version", ALL)
def test_kafka_15449_records_are_appended_only_for_a_transaction_that_includes_the_partition(version: int) -> None:
    broker = Coordinator()
    broker.verified = None
    replies = broker.post(txn_offset_commit, version, request(7))
    ((tp, transaction, answer),) = broker.asked
    assert (tp, *transaction) == (PARTITION, "billing-1", PRODUCER_ID, 0, version >= 5)
    assert (replies.said, broker.partition(PARTITION).log.log_end_offset) == ([], 0)
    answer(ErrorCode.NONE)
    assert codes(replies.only) == [0]


@pytest.mark.parametrize(
    ("answered", "version", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 4, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.INVALID_TXN_STATE, 4, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 4, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 4, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_what_a_producer_is_told_that_is_not_admitted(answered: ErrorCode, version: int, told: ErrorCode) -> None:
    broker = Coordinator()
    broker.verified = answered
    assert codes(broker.ask(txn_offset_commit, version, request(7))) == [told]
    assert broker.partition(PARTITION).log.log_end_offset == 0


def test_what_has_changed_while_the_coordinator_was_asked_counts() -> None:
    broker = Coordinator()
    broker.verified = None
    moved = broker.post(txn_offset_commit, 3, request(7))
    broker.elect(1, 1, replicas=(1,))
    broker.work()
    broker.asked.pop()[2](ErrorCode.NONE)
    assert codes(moved.only) == [ErrorCode.NOT_COORDINATOR]


def test_a_commit_that_waits_for_the_coordinator_is_shown_and_ends_with_the_answer() -> None:
    broker = Coordinator()
    broker.verified = None
    replies = broker.post(txn_offset_commit, 3, request(7))
    (waiting,) = broker.transaction_purgatory.operations(10)
    assert in_words(waiting.causes) == (
        "the coordinator of `billing-1` has not confirmed that its transaction includes __consumer_offsets-0"
    )
    assert [str(key) for key in waiting.keys] == ["billing-1"]
    broker.asked.pop()[2](ErrorCode.NONE)
    assert codes(replies.only) == [0]
    assert [each.outcome for each in broker.finished if each.purgatory == "Transaction"] == ["completed"]


def test_a_commit_does_not_wait_for_ever_and_is_not_appended_after_its_deadline() -> None:
    broker = Coordinator()
    broker.verified = None
    replies = broker.post(txn_offset_commit, 3, request(7))
    broker.advance_ms(5_001)
    assert codes(replies.only) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    broker.asked.pop()[2](ErrorCode.NONE)
    assert broker.partition(PARTITION).log.log_end_offset == 0
    assert broker.groups.txn_offsets.asking_count == 0


def test_a_broker_that_stops_answers_the_commits_that_wait() -> None:
    broker = Coordinator()
    broker.verified = None
    replies = broker.post(txn_offset_commit, 3, request(7))
    broker.transaction_purgatory.shutdown()
    assert codes(replies.only) == [ErrorCode.NOT_COORDINATOR]
    assert codes(broker.ask(txn_offset_commit, 3, request(7))) == [ErrorCode.NOT_COORDINATOR]
    assert broker.groups.txn_offsets.asking_count == 0


def test_offsets_that_wait_for_the_coordinator_count_for_the_limit() -> None:
    broker = Coordinator(max_offsets=3)
    broker.verified = None
    waiting = broker.post(txn_offset_commit, 3, request(7, 8))
    assert codes(broker.ask(txn_offset_commit, 3, request(7, 8))) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    broker.asked.pop()[2](ErrorCode.NONE)
    assert codes(waiting.only) == [0, 0]
    assert broker.groups.txn_offsets.asking_count == 0


def test_offsets_that_wait_for_the_end_of_transactions_count_for_the_limit() -> None:
    broker = Coordinator(max_offsets=3)
    broker.ask(txn_offset_commit, 3, request(7, 8))
    assert codes(broker.ask(offset_commit, 9, plain_commit(7, 8))) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    end(broker)
    assert codes(broker.ask(offset_commit, 9, plain_commit(7, 8))) == [0, 0]


def test_a_transaction_has_a_bounded_number_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_offset_manager, "MAX_OFFSETS_OF_TRANSACTION", 3)
    broker = Coordinator()
    assert codes(broker.ask(txn_offset_commit, 3, request(7, 8))) == [0, 0]
    assert codes(broker.ask(txn_offset_commit, 3, request(8, 9, 9))) == [0, 0, 0]
    refused = request(1, group_id="other")
    assert codes(broker.ask(txn_offset_commit, 3, refused)) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
    end(broker)
    assert codes(broker.ask(txn_offset_commit, 3, refused)) == [0]


# --- what is wrong with the request ---


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": -1}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"name": "unknown"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"metadata": "x" * 4_097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_wrong_requests_are_refused_and_nobody_is_asked(fields: Any, told: ErrorCode) -> None:
    broker = Coordinator()
    assert codes(broker.ask(txn_offset_commit, 3, request(7, **fields))) == [told]
    assert broker.asked == []


def test_partitions_that_exist_are_committed_beside_those_that_do_not() -> None:
    broker = Coordinator()
    assert codes(broker.ask(txn_offset_commit, 3, request(7, 7, 7, 7))) == [0, 0, 0, 3]


def test_kip_1319_topics_are_named_by_id_from_version_6_on() -> None:
    broker = Coordinator()
    commit = request(7, name="unknown")
    commit.topics += request(8, 8, 8, 8, topic_id=b"u" * 16).topics
    answer = broker.ask(txn_offset_commit, 6, commit)
    assert [each.topic_id for each in answer.topics] == [ORDERS_ID, b"u" * 16]
    assert codes(answer) == [0] + [ErrorCode.UNKNOWN_TOPIC_ID] * 4
    assert end(broker) == [ErrorCode.NONE]
    assert offset(broker) == 7


@pytest.mark.parametrize(
    ("version", "told"),
    [(3, ErrorCode.ILLEGAL_GENERATION), (5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.STALE_MEMBER_EPOCH)],
)
def test_kip_1319_a_stale_member_epoch_is_told_from_version_6_on(
    version: int, told: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Coordinator()

    def commit(*_: object) -> None:
        raise CoordinatorError(ErrorCode.STALE_MEMBER_EPOCH, "the member is in epoch 3")

    monkeypatch.setattr(broker.groups.txn_offsets, "commit", commit)
    assert codes(broker.ask(txn_offset_commit, version, request(7, generation_id=2, member_id="one"))) == [told]


@pytest.mark.parametrize("version", ALL)
def test_kafka_7296_old_clients_are_not_told_that_the_coordinator_loads(version: int) -> None:
    broker = Coordinator()
    broker.ask(txn_offset_commit, 3, request(7))
    broker.set_topics(offsets_topic((1,), 1, 1), topic("orders", replicas=(1,)))
    told = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert codes(broker.ask(txn_offset_commit, version, request(7))) == [told]


@pytest.mark.parametrize("version", MEMBERSHIP)
def test_a_generation_of_an_unknown_group_is_illegal(version: int) -> None:
    """Clients from version 6 on are told that there is no such group (KIP-1319)."""
    broker = Coordinator()
    told = ErrorCode.ILLEGAL_GENERATION if version < 6 else ErrorCode.GROUP_ID_NOT_FOUND
    assert codes(broker.ask(txn_offset_commit, version, request(7, generation_id=1))) == [told]
    broker.ask(offset_commit, 9, plain_commit(7))
    assert codes(broker.ask(txn_offset_commit, version, request(7, generation_id=1))) == [ErrorCode.UNKNOWN_MEMBER_ID]


# --- require_stable ---


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_an_offset_that_a_transaction_may_change_is_unstable_until_the_marker_is_replicated(marker: EndMarker) -> None:
    broker = Coordinator(replicas=(1, 2))
    broker.post(offset_commit, 9, plain_commit(5, 5))
    broker.follow((2, 2), tp=PARTITION)
    broker.post(txn_offset_commit, 3, request(7))

    def fetch(require_stable: bool) -> list[tuple[int, int, int]]:
        asked = single(0, 1)
        asked.require_stable = require_stable
        return seen(broker.ask(offset_fetch, 7, asked).topics)

    unstable = [(0, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (1, 5, 0)]
    assert (fetch(True), fetch(False)) == (unstable, [(0, 5, 0), (1, 5, 0)])  # in the log of the leader only
    broker.follow((2, 3), tp=PARTITION)
    assert (fetch(True), fetch(False)) == (unstable, [(0, 5, 0), (1, 5, 0)])
    end(broker, marker)
    assert fetch(True) == unstable
    broker.follow((2, 4), tp=PARTITION)
    assert fetch(True) == fetch(False) == [(0, 7 if marker is COMMIT else 5, 0), (1, 5, 0)]


@pytest.mark.parametrize("version", range(8, 11))
def test_unstable_offsets_of_several_groups_and_of_all_topics(version: int) -> None:
    broker = Coordinator()
    broker.ask(offset_commit, 9, plain_commit(5))
    broker.ask(txn_offset_commit, 3, request(7, 7))
    groups = [group(0, 2), group(all_topics=True), group(0, group_id="other")]
    named, everything, other = broker.ask(
        offset_fetch, version, OffsetFetchRequest(groups=groups, require_stable=True)
    ).groups
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert seen(named.topics) == [(0, -1, code), (2, -1, 0)]
    assert seen(everything.topics) == [(0, -1, code), (1, -1, code)]
    assert seen(other.topics) == [(0, -1, 0)]


def test_an_unknown_topic_keeps_its_own_error_with_require_stable() -> None:
    broker = Coordinator()
    unknown = OffsetFetchRequestTopics(topic_id=b"u" * 16, partition_indexes=[0])
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="app", topics=[unknown])], require_stable=True)
    (answered,) = broker.ask(offset_fetch, 10, asked).groups
    assert seen(answered.topics) == [(0, -1, ErrorCode.UNKNOWN_TOPIC_ID)]
