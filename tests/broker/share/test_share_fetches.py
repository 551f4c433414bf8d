"""Share fetches and acknowledgements of members, over real logs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share import share_fetches
from purgatorio.broker.share.acknowledging import AcknowledgeType, ShareAcknowledgementBatch
from purgatorio.broker.share.acquiring import AcquireMode
from purgatorio.broker.time import long_work
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from tests.broker.replica.harness import batch, topic
from tests.broker.share.fetching import GROUP, Member, ShareHarness

NONE = ErrorCode.NONE
LOCK_MS = 30_000


@pytest.fixture
def house() -> ShareHarness:
    return ShareHarness()


@pytest.fixture
def ada(house: ShareHarness) -> Member:
    return house.member("ada")


def produce(house: ShareHarness, *values: bytes, partition: int = 0) -> None:
    """Append one batch."""
    house.produce(TopicPartition("orders", partition), records=batch(*values), acks=1)


# --- acquiring ---


def test_records_that_are_there_are_acquired_at_once(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a", b"b")
    asked = ada.fetch(house.key())
    assert asked.acquired == [(0, 1, 1)]
    (result,) = asked.results
    assert result.acquired is not None
    assert sum(map(len, result.acquired.parts)) == house.partition().log.size_bytes


def test_a_fetch_waits_until_records_come(house: ShareHarness, ada: Member) -> None:
    asked = ada.fetch(house.key())
    assert (asked.answered, house.share_fetch_purgatory.num_delayed) == (False, 1)
    produce(house, b"a")
    assert asked.acquired == [(0, 0, 1)]
    assert house.share_fetch_purgatory.num_delayed == 0


def test_a_fetch_that_finds_nothing_is_answered_when_its_time_is_over(house: ShareHarness, ada: Member) -> None:
    asked = ada.fetch(house.key(), max_wait_ms=500)
    house.advance_ms(499)
    assert not asked.answered
    house.advance_ms(1)
    assert asked.acquired == []
    assert house.shares.metrics.expired_count == 1


def test_a_fetch_waits_for_its_least_bytes(house: ShareHarness, ada: Member) -> None:
    size = len(batch(b"a"))
    asked = ada.fetch(house.key(), min_bytes=size + 1)
    produce(house, b"a")
    assert not asked.answered
    produce(house, b"b")
    assert asked.acquired == [(0, 1, 1)]


def test_no_record_is_acquired_by_two_members(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    bob = house.member("bob")
    assert ada.fetch(house.key()).acquired == [(0, 0, 1)]
    waiting = bob.fetch(house.key())
    assert not waiting.answered
    produce(house, b"b")
    assert waiting.acquired == [(1, 1, 1)]


def test_uncommitted_records_are_not_acquired() -> None:
    house = ShareHarness()
    house.set_topics(topic(replicas=(1, 2), partition_epoch=1))
    asked = house.member().fetch(house.key())
    produce(house, b"a")
    assert not asked.answered
    house.follow((2, 1))
    assert asked.acquired == [(0, 0, 1)]


def test_only_the_batches_with_acquired_records_are_sent(house: ShareHarness, ada: Member) -> None:
    for value in (b"a", b"b", b"c"):
        produce(house, value)
    asked = ada.fetch(house.key(), max_records=2)
    (result,) = asked.results
    assert result.acquired is not None
    assert (asked.acquired, len(result.acquired.parts)) == ([(0, 1, 1)], 2)


def test_the_limit_of_records_is_soft_for_whole_batches_and_hard_for_records(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a", b"b", b"c")
    bob = house.member("bob")
    assert ada.fetch(house.key(), max_records=1, mode=AcquireMode.RECORD_LIMIT).acquired == [(0, 0, 1)]
    assert bob.fetch(house.key(), max_records=1).acquired == [(1, 2, 1)]


def test_partitions_share_the_limit_of_bytes(house: ShareHarness) -> None:
    house = ShareHarness(partitions=2)
    for partition in (0, 1):
        for _ in range(4):
            produce(house, b"x" * 100, partition=partition)
    size = len(batch(b"x" * 100))
    asked = house.member().fetch(house.key(0), house.key(1), max_bytes=4 * size)
    assert [len(result.acquired.parts) for result in asked.results if result.acquired] == [2, 2]


def test_records_of_partitions_that_were_forgotten_are_not_waited_for(house: ShareHarness) -> None:
    house = ShareHarness(partitions=2)
    ada = house.member()
    ada.fetch(house.key(0), house.key(1), max_wait_ms=0)
    asked = ada.fetch(forgotten=[house.key(0)])
    produce(house, b"a")
    assert not asked.answered
    produce(house, b"b", partition=1)
    assert [result.key.partition for result in asked.results] == [1]


def test_a_group_without_records_begins_where_its_setting_says() -> None:
    house = ShareHarness(settings=None)
    produce(house, b"a")
    house.shares.settings.defaults = type(house.shares.settings.defaults)()  # latest, as in Kafka
    asked = house.member().fetch(house.key())
    assert not asked.answered
    produce(house, b"b")
    assert asked.acquired == [(1, 1, 1)]


# --- what answers name ---


def test_the_first_answer_names_all_partitions_and_later_ones_those_with_news() -> None:
    house = ShareHarness(partitions=3)
    ada = house.member()
    assert len(ada.fetch(house.key(0), house.key(1), max_wait_ms=0).results) == 2
    assert ada.fetch(max_wait_ms=0).results == []
    assert [each.key.partition for each in ada.fetch(house.key(2), max_wait_ms=0).results] == [2]
    produce(house, b"a", partition=1)
    assert [each.key.partition for each in ada.fetch().results] == [1]


def test_an_unknown_topic_id_is_told(house: ShareHarness, ada: Member) -> None:
    asked = ada.fetch(SharePartitionKey(GROUP, bytes(16), 0))
    assert asked.errors == [(ErrorCode.UNKNOWN_TOPIC_ID, NONE)]


def test_a_partition_that_does_not_exist_is_told(house: ShareHarness, ada: Member) -> None:
    assert ada.fetch(house.key(7)).errors == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE)]


def test_a_member_hears_at_once_that_the_leader_has_changed(house: ShareHarness, ada: Member) -> None:
    asked = ada.fetch(house.key())
    house.set_topics(topic(leader=2, replicas=(1, 2), leader_epoch=1, partition_epoch=1))
    assert asked.errors == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, NONE)]
    assert len(house.shares.partitions) == 0


def test_a_state_that_cannot_be_read_is_told_and_read_again_by_the_next_fetch(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    house.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ada.fetch(house.key()).errors == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, NONE)]
    house.persister.error = NONE
    assert ada.fetch().acquired == [(0, 0, 1)]


# --- acknowledging ---


def test_accepted_records_are_never_delivered_again(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a", b"b")
    ada.fetch(house.key())
    assert ada.acknowledge(house.key(), 0, 1).errors == [(NONE, NONE)]
    asked = ada.fetch(max_wait_ms=LOCK_MS + 10)
    house.advance_ms(LOCK_MS)
    assert not asked.answered
    assert house.persister.writes == [(house.key(), []), (house.key(), [(0, 1, 2, 1)])], "the start, what was accepted"


def test_released_records_go_to_whichever_member_waits(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    ada.fetch(house.key())
    waiting = house.member("bob").fetch(house.key())
    ada.acknowledge(house.key(), 0, kind=AcknowledgeType.RELEASE)
    assert waiting.acquired == [(0, 0, 2)]


def test_a_fetch_acknowledges_first(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    ada.fetch(house.key())
    acknowledged = {house.key(): [ShareAcknowledgementBatch(0, 0, (AcknowledgeType.RELEASE,))]}
    asked = ada.fetch(acknowledged=acknowledged)
    assert (asked.acquired, asked.errors) == ([(0, 0, 2)], [(NONE, NONE)])


def test_a_refused_acknowledgement_does_not_stop_the_fetch(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    ada.fetch(house.key())
    produce(house, b"b")
    asked = house.member("bob").fetch(house.key())
    assert asked.acquired == [(1, 1, 1)]
    acknowledged = {house.key(): [ShareAcknowledgementBatch(1, 1, (AcknowledgeType.ACCEPT,))]}
    produce(house, b"c")
    asked = ada.fetch(acknowledged=acknowledged)
    assert (asked.acquired, asked.errors) == ([(2, 2, 1)], [(NONE, ErrorCode.INVALID_RECORD_STATE)])


def test_an_acknowledgement_is_answered_when_it_is_written(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    ada.fetch(house.key())
    house.persister.held = True
    asked = ada.acknowledge(house.key(), 0)
    assert not asked.answered
    house.persister.answer()
    assert asked.errors == [(NONE, NONE)]


def test_nothing_is_acknowledged_where_nothing_was_acquired(house: ShareHarness, ada: Member) -> None:
    ada.fetch(max_wait_ms=0)
    assert ada.acknowledge(house.key(), 0).errors == [(NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    unknown = SharePartitionKey(GROUP, bytes(16), 0)
    assert ada.acknowledge(unknown, 0).errors == [(NONE, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_an_acknowledgement_of_a_deleted_topic_has_an_unknown_topic_id(house: ShareHarness, ada: Member) -> None:
    """KafkaShareConsumer then has an UnknownTopicIdException for what it commits."""
    produce(house, b"a")
    key = house.key()
    ada.fetch(key)
    house.set_topics()
    assert ada.acknowledge(key, 0).errors == [(NONE, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_a_renewal_keeps_the_records(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    ada.fetch(house.key())
    house.advance_ms(LOCK_MS - 1)
    assert ada.acknowledge(house.key(), 0, kind=AcknowledgeType.RENEW, renews=True).errors == [(NONE, NONE)]
    waiting = house.member("bob").fetch(house.key(), max_wait_ms=2 * LOCK_MS)
    house.advance_ms(LOCK_MS - 1)
    assert not waiting.answered
    house.advance_ms(1)
    assert waiting.acquired == [(0, 0, 2)]


# --- locks ---


def test_a_lock_that_runs_out_gives_the_records_to_the_next_member(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    ada.fetch(house.key())
    waiting = house.member("bob").fetch(house.key(), max_wait_ms=LOCK_MS + 1)
    house.advance_ms(LOCK_MS - 1)
    assert not waiting.answered
    house.advance_ms(1)
    assert waiting.acquired == [(0, 0, 2)]
    assert ada.acknowledge(house.key(), 0).errors == [(NONE, ErrorCode.INVALID_RECORD_STATE)]


# --- sessions ---


def test_a_closed_connection_gives_its_records_back_at_once(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a")
    ada.fetch(house.key())
    waiting = house.member("bob").fetch(house.key())
    ada.connection.lost()
    assert waiting.acquired == [(0, 0, 2)]


def test_a_session_that_is_ended_gives_its_records_back(house: ShareHarness, ada: Member) -> None:
    produce(house, b"a", b"b")
    ada.fetch(house.key())
    waiting = house.member("bob").fetch(house.key())
    acknowledged = {house.key(): [ShareAcknowledgementBatch(0, 0, (AcknowledgeType.ACCEPT,))]}
    asked = ada.fetch(acknowledged=acknowledged, epoch=-1)
    assert asked.errors == [(NONE, NONE)]
    assert waiting.acquired == [(1, 1, 2)]
    with pytest.raises(share_fetches.ShareRequestError) as refusal:
        ada.fetch()
    assert refusal.value.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_parked_fetch_whose_session_ends_is_answered(house: ShareHarness, ada: Member) -> None:
    asked = ada.fetch(house.key())
    ada.acknowledge(house.key(), 0, epoch=-1)
    assert asked.answered
    assert house.share_fetch_purgatory.num_delayed == 0


def test_the_last_session_of_a_group_takes_its_share_partitions_along(house: ShareHarness, ada: Member) -> None:
    bob = house.member("bob")
    ada.fetch(house.key())
    bob.fetch(house.key())
    ada.connection.lost()
    assert len(house.shares.partitions) == 1
    bob.connection.lost()
    assert len(house.shares.partitions) == 0
    assert not house.replicas.share_watch.lists


@pytest.mark.parametrize(
    "end",
    [
        lambda ada, key: ada.connection.lost(),
        lambda ada, key: ada.fetch(key, epoch=0, max_wait_ms=0),
        lambda ada, key: ada.acknowledge(key, 1, kind=2, epoch=-1),
    ],
    ids=["connection lost", "another session", "last request"],
)
def test_a_fetch_whose_session_ends_while_its_acknowledgements_are_written_is_answered(
    house: ShareHarness, ada: Member, end: Callable[[Member, SharePartitionKey], object]
) -> None:
    """It does not park: no event would find it."""
    produce(house, b"a", b"b")
    bob = house.member("bob")
    bob.fetch(max_wait_ms=0)
    ada.fetch(house.key())
    house.persister.held = True
    acknowledged = {house.key(): [ShareAcknowledgementBatch(0, 0, (AcknowledgeType.ACCEPT,))]}
    asked = ada.fetch(acknowledged=acknowledged)
    end(ada, house.key())
    assert not asked.answered, "its acknowledgements are not written yet"
    write_on(house)
    assert asked.errors == [(NONE, NONE)]
    assert house.share_fetch_purgatory.num_delayed == 0
    house.advance_ms(LOCK_MS)
    assert [each[:2] for each in bob.fetch(house.key()).acquired] == [(1, 1)]


def write_on(house: ShareHarness) -> None:
    """Let the share coordinator answer what waits, and what comes."""
    house.persister.held = False
    while house.persister.waiting:
        house.persister.answer()


@pytest.mark.parametrize(("error", "left"), [(NONE, []), (ErrorCode.COORDINATOR_NOT_AVAILABLE, [(0, 0, 2)])])
def test_a_lock_that_ends_while_its_record_is_being_accepted_leaves_that_to_the_write(
    house: ShareHarness, ada: Member, error: ErrorCode, left: list[tuple[int, int, int]]
) -> None:
    produce(house, b"a")
    ada.fetch(house.key())
    waiting = house.member("bob").fetch(house.key(), max_wait_ms=2 * LOCK_MS)
    house.persister.held = True
    accepted = ada.acknowledge(house.key(), 0)
    house.advance_ms(LOCK_MS)
    assert not accepted.answered
    assert not waiting.answered
    house.persister.error = error
    write_on(house)
    assert accepted.errors == [(NONE, error)]
    house.advance_ms(LOCK_MS)
    assert waiting.acquired == left
    share = house.shares.partitions.known(house.key())
    assert share is not None
    assert share.start_offset == (0 if left else 1)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> ShareHarness:
    """One with two records in each of two partitions, where a turn has room for the end at one partition."""
    monkeypatch.setattr(long_work, "SLICE", 1)
    large = ShareHarness(partitions=2)
    for partition in range(2):
        produce(large, b"a", b"b", partition=partition)
    return large


def picture(house: ShareHarness) -> list[list[str]]:
    """The members that have records of each partition."""
    shares = (house.shares.partitions.known(house.key(partition)) for partition in range(2))
    return [[] if share is None else [lock.member_id for lock in share.locks()] for share in shares]


def test_a_large_session_gives_its_records_back_in_turns(large: ShareHarness) -> None:
    ada, bob = large.member("ada"), large.member("bob")
    ada.fetch(large.key(0), large.key(1))
    bob.fetch(large.key(0), large.key(1), max_wait_ms=0)
    assert picture(large) == [["ada"], ["ada"]]
    ada.connection.lost()
    assert picture(large) == [[], ["ada"]]
    assert bob.fetch().acquired == [(0, 1, 2)]
    large.advance_ms(0)
    assert picture(large) == [["bob"], []]


def test_what_a_member_acquires_in_its_next_session_does_not_end_with_the_one_before(large: ShareHarness) -> None:
    ada, bob = large.member("ada"), large.member("bob")
    ada.fetch(large.key(0), large.key(1))
    bob.fetch(max_wait_ms=0)
    ada.connection.lost()
    produce(large, b"c", partition=1)
    assert large.member("ada").fetch(large.key(1)).acquired == [(2, 2, 1)]
    assert picture(large) == [[], ["ada", "ada"]]
    for _ in range(3):
        large.advance_ms(0)
    assert picture(large) == [[], ["ada"]]


def test_the_share_partitions_of_a_group_are_dropped_in_turns_while_it_has_no_session(large: ShareHarness) -> None:
    ada = large.member("ada")
    for goes_on, left in ((False, 0), (True, 1)):
        ada = large.member("ada")
        ada.fetch(large.key(0), large.key(1))
        ada.connection.lost()
        large.long_work.turn()
        assert picture(large) == [[], []]
        large.long_work.turn()
        assert len(large.shares.partitions) == 1
        if goes_on:
            large.member("bob").fetch()
        list(large.long_work.turns())
        assert len(large.shares.partitions) == left, "bob may fetch from it next"


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda ada, key: ada.fetch(key, epoch=1), ErrorCode.SHARE_SESSION_NOT_FOUND),
        (lambda ada, key: ada.fetch(key, epoch=-1), ErrorCode.SHARE_SESSION_NOT_FOUND),
        (lambda ada, key: ada.acknowledge(key, 0, epoch=1), ErrorCode.SHARE_SESSION_NOT_FOUND),
        (lambda ada, key: ada.acknowledge(key, 0, epoch=0), ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (
            lambda ada, key: ada.fetch(acknowledged={key: [ShareAcknowledgementBatch(0, 0, (1,))]}, epoch=0),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_requests_without_a_session_are_refused(
    house: ShareHarness, ada: Member, ask: Callable[[Member, SharePartitionKey], object], error: ErrorCode
) -> None:
    with pytest.raises(share_fetches.ShareRequestError) as refusal:
        ask(ada, house.key())
    assert refusal.value.error_code == error
    assert len(house.shares.sessions) == 0


@pytest.mark.parametrize("epoch", [2, 7, -2])
def test_another_epoch_than_the_one_that_is_due_is_refused(house: ShareHarness, ada: Member, epoch: int) -> None:
    ada.fetch(house.key(), max_wait_ms=0)
    for ask in (lambda: ada.fetch(epoch=epoch), lambda: ada.acknowledge(house.key(), 0, epoch=epoch)):
        with pytest.raises(share_fetches.ShareRequestError) as refusal:
            ask()
        assert refusal.value.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_one_session_too_many_is_refused_when_its_time_is_over() -> None:
    house = ShareHarness(max_sessions=1)
    house.member("ada").fetch(house.key())
    asked = house.member("bob").fetch(house.key(), max_wait_ms=500)
    assert not asked.answered
    house.advance_ms(500)
    assert asked.refusal == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_session_has_so_many_partitions_and_no_more(
    house: ShareHarness, ada: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_fetches, "MAX_PARTITIONS", 2)
    with pytest.raises(share_fetches.ShareRequestError) as refusal:
        ada.fetch(*map(house.key, range(3)))
    assert (refusal.value.error_code, len(house.shares.sessions)) == (ErrorCode.INVALID_REQUEST, 0)
    ada.fetch(house.key(0), house.key(1), max_wait_ms=0, epoch=0)


def test_a_fetch_is_answered_when_its_member_opens_another_session(house: ShareHarness, ada: Member) -> None:
    """Else it would keep its connection from further answers until its time is over."""
    waiting = ada.fetch(house.key(), max_wait_ms=60_000)
    assert not waiting.answered
    house.member("ada").fetch(house.key(), max_wait_ms=60_000)
    assert waiting.acquired == []


# --- what observers see ---


def test_a_parked_fetch_says_what_it_waits_for(house: ShareHarness, ada: Member) -> None:
    house.persister.held = True
    ada.fetch(house.key())
    (parked,) = house.share_fetch_purgatory.operations()
    assert in_words(parked.causes) == (
        "group `jobs` has 0 of 1 bytes: orders-0 until the leader has read the group's state"
    )
    write_on(house)
    (parked,) = house.share_fetch_purgatory.operations()
    assert in_words(parked.causes) == "group `jobs` has 0 of 1 bytes: orders-0 from 0"
    assert list(map(str, parked.keys)) == ["jobs: orders-0"]
