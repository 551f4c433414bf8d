"""What is given up is copied, in order, once more after failures, and archived."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from purgatorio.broker.causes.cause import DeadLettersNotWritten
from purgatorio.broker.share.dead_letters.backlog import MAX_RECORDS
from purgatorio.broker.share.dead_letters.queue import MAX_BATCHES
from purgatorio.broker.share.giving_up import GiveUpCause
from purgatorio.logger import LINES_PER_PERIOD, PERIOD_MS
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.dead_letter import DELIVERY_LIMIT, REJECTED, DeadLetterHeaders
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.replica.harness import ORDERS, topic
from tests.broker.share.dead_letters.world import DLQ, World, dlq, owner

LIMIT = GiveUpCause.DELIVERY_LIMIT


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return what reads and forgets which records are archived without dead letters, and why."""

    def read() -> list[str]:
        lines = [each.getMessage() for each in caplog.records]
        caplog.clear()
        return lines

    return read


# --- written ---


def test_a_dead_letter_tells_what_it_is_of_and_has_the_time_of_its_writing() -> None:
    world, ada = World(dlq()), owner()
    world.has(2)
    world.give_up(ada, 1, count=5, cause=LIMIT)
    assert (world.letters, ada.told, world.queue.under_way) == ([], [], 1)
    world.turn()
    (letter,) = world.letters
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"k", b"1", world.clock.wall_ms())
    assert DeadLetterHeaders.decode(letter.headers) == DeadLetterHeaders("orders", 0, 1, "jobs", 5, DELIVERY_LIMIT)
    assert (ada.told, world.queue.under_way) == ([(1, 1, True)], 0)
    count = world.queue.counts.of("jobs")
    assert (count.records, count.requests, count.failures) == (1, 1, 0)


def test_key_and_value_are_copied_if_the_group_wants_that() -> None:
    world = World(dlq(), copies=False)
    world.has(1)
    world.give_up(owner(), 0)
    world.turn()
    (letter,) = world.letters
    assert (letter.key, letter.value) == (None, None)


def test_the_order_in_which_records_are_given_up_is_kept_over_batches() -> None:
    world, ada = World(dlq(2)), owner()
    world.has(MAX_RECORDS + 100)
    world.give_up(ada, 100, MAX_RECORDS + 99)
    world.turn()
    for offset in (7, 3, 5):
        world.give_up(ada, offset)
    assert world.turn() == 0
    first = world.only()
    assert (first.broker_id, first.offsets) == (2, [*range(100, MAX_RECORDS + 100)])
    first.answer()
    assert ada.told == [(100, MAX_RECORDS + 99, True)]
    world.turn()
    second = world.only()
    assert second.offsets == [7, 3, 5]
    second.answer()
    assert ada.told[1:] == [(7, 7, True), (3, 3, True), (5, 5, True)]
    assert (world.queue.under_way, world.queue.counts.of("jobs").records) == (0, MAX_RECORDS + 3)


def test_a_batch_has_no_more_bytes_than_the_topic_takes() -> None:
    world, ada = World(dlq(2, max_message_bytes="1500")), owner()
    world.has(7, size=200)
    world.give_up(ada, 0, 6)
    offsets: list[int] = []
    while world.turn():
        sent = world.only()
        assert len(sent.batch) <= 1_500
        assert len(sent.offsets) > 1 or offsets
        offsets += sent.offsets
        sent.answer()
    assert (offsets, world.queue.under_way) == ([*range(7)], 0)


def test_a_record_that_is_larger_than_a_batch_may_be_is_written_alone() -> None:
    world, ada = World(dlq(2, max_message_bytes="500")), owner()
    world.has(1)
    world.has(1, size=1_000)
    world.has(1)
    world.give_up(ada, 0, 2)
    written = []
    while world.turn():
        sent = world.only()
        written.append(sent.offsets)
        sent.answer()
    assert written == [[0], [1], [2]]


def test_so_many_batches_are_under_way_and_share_partitions_take_turns() -> None:
    world = World(dlq(2), partitions=MAX_BATCHES + 2)
    owners = [owner(nth) for nth in range(MAX_BATCHES + 2)]
    for each in owners:
        world.has(2, each.tp)
        world.give_up(each, 0)
    world.turn()
    sent = world.take()
    assert len(sent) == MAX_BATCHES
    world.give_up(owners[0], 1)
    sent[0].answer()
    world.turn()
    (next_one,) = world.take()
    assert DeadLetterHeaders.decode(next_one.letters[0].headers) == DeadLetterHeaders(
        "orders", MAX_BATCHES, 0, "jobs", 1, REJECTED
    )
    for each in (*sent[1:], next_one):
        each.answer()
    world.turn()
    for each in world.take():
        each.answer()
    assert world.queue.under_way == 0
    assert owners[0].told == [(0, 0, True), (1, 1, True)]


def test_offsets_without_a_record_are_archived_without_a_letter() -> None:
    world, ada = World(dlq()), owner()
    world.has(1)
    world.give_up(ada, 0, 2)
    world.turn()
    assert (world.offsets, ada.told) == ([0], [(0, 0, True), (1, 2, False)])
    world.give_up(ada, 3)
    world.turn()
    assert (world.offsets, ada.told[2:], world.queue.under_way) == ([0], [(3, 3, False)], 0)


# --- failures that pass ---


@pytest.mark.parametrize("fails", ["answer", "connection"])
def test_what_fails_waits_and_is_written_once_more(fails: str) -> None:
    world, ada = World(dlq(2)), owner()
    world.has(2)
    world.give_up(ada, 0)
    world.turn()
    if fails == "answer":
        world.only().answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    else:
        world.only().fail()
    why = "NOT_ENOUGH_REPLICAS" if fails == "answer" else "lost"
    assert world.waits == [DeadLettersNotWritten(DLQ, "jobs", "orders-0", 2, why, 4)]
    (parked,) = world.purgatory.operations()
    assert [str(each) for each in parked.keys] == ["jobs: orders-0", "dlq.jobs-0"]
    world.give_up(ada, 1)
    world.advance_ms(1_999)
    assert world.turn() == 0
    world.advance_ms(1)
    world.turn()
    sent = world.only()
    assert sent.offsets == [0, 1]
    sent.answer()
    assert (ada.told, world.queue.under_way) == ([(0, 0, True), (1, 1, True)], 0)
    assert [each.held_by for each in world.ended] == [(2,)]


def test_lost_records_and_those_that_cannot_be_copied_make_few_lines(said: Callable[[], list[str]]) -> None:
    """However many a consumer gives up: each kind has its lines, and the first one after a silence has their number."""
    world, ada = World(dlq()), owner()
    world.set(dead_letter_topic="elsewhere")
    for nth in range(LINES_PER_PERIOD + 5):
        world.give_up(ada, nth)
    world.turn()
    assert len(said()) == LINES_PER_PERIOD
    world.set(dead_letter_topic="dlq.jobs")
    records = [Record(0, 1_000, None, bytes(2_000_000))]
    world.produce(ORDERS, records=build_batch(records, compression=Compression.GZIP), acks=1)
    for _ in range(LINES_PER_PERIOD + 5):
        world.give_up(ada, 0)
        world.turn()
    assert len(said()) == LINES_PER_PERIOD
    world.advance_ms(PERIOD_MS)
    world.give_up(ada, 0)
    world.turn()
    (line,) = said()
    assert line.startswith("records of a batch cannot be copied to a dead-letter topic base_offset=0 why=")
    assert line.endswith(" lines_left_out=5")


def test_a_record_is_given_up_after_five_tries_and_those_behind_it_have_theirs(said: Callable[[], list[str]]) -> None:
    world, ada = World(dlq(2)), owner()
    world.has(2)
    world.give_up(ada, 0)
    for nth, wait_ms in enumerate((2_000, 4_000, 8_000, 16_000)):
        world.turn()
        world.only().fail()
        (parked,) = world.purgatory.operations()
        assert parked.deadline_ms - world.clock.now_ms() == wait_ms
        if nth == 3:
            world.give_up(ada, 1)
        world.advance_ms(wait_ms)
    assert said() == []
    world.turn()
    world.only().answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert said() == [
        "records are archived without dead letters group=jobs records='orders-0 0' "
        "why='5 tries to write to dlq.jobs-0 have failed, the last one with: NOT_LEADER_OR_FOLLOWER'"
    ]
    assert ada.told == [(0, 0, False)]
    assert [cause.tries_left for cause in world.waits] == [4]
    world.advance_ms(2_000)
    world.turn()
    world.only().answer()
    assert ada.told == [(0, 0, False), (1, 1, True)]
    count = world.queue.counts.of("jobs")
    assert (count.records, count.requests, count.failures) == (1, 6, 1)


def test_a_try_that_succeeds_gives_the_next_ones_all_their_tries() -> None:
    world, ada = World(dlq(2)), owner()
    world.has(MAX_RECORDS + 1)
    world.give_up(ada, 0, MAX_RECORDS)
    world.turn()
    world.only().fail()
    world.advance_ms(2_000)
    world.turn()
    world.only().answer()
    world.turn()
    world.only().fail()
    assert [cause.tries_left for cause in world.waits] == [4]


def test_another_leader_ends_the_wait() -> None:
    world = World(dlq(2))
    world.has(1)
    world.give_up(owner(), 0)
    world.turn()
    world.only().answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.elect(dlq(-1))
    assert world.turn() == 0
    world.elect(dlq(1))
    world.turn()
    assert (world.offsets, world.waits) == ([0], [])
    assert [each.cause for each in world.ended] == ["dead-letter topic"]


def test_a_topic_without_a_leader_is_waited_for() -> None:
    world = World(dlq(-1))
    world.has(1)
    world.give_up(owner(), 0)
    world.turn()
    assert world.waits == [DeadLettersNotWritten(DLQ, "jobs", "orders-0", None, "no leader", 4)]
    world.elect(dlq(1))
    world.turn()
    assert world.offsets == [0]
    assert world.queue.counts.of("jobs").requests == 1


def test_a_topic_is_created_and_then_written_to() -> None:
    world, ada = World(creates_topics=True), owner()
    world.has(1)
    world.give_up(ada, 0)
    world.turn()
    ((name, done),) = world.creating
    assert name == "dlq.jobs"
    done("the store does not answer")
    (cause,) = world.waits
    assert (str(cause.tp), cause.error) == ("dlq.jobs-0", "the topic could not be created: the store does not answer")
    world.advance_ms(2_000)
    world.turn()
    world.elect(dlq(1))
    world.creating[1][1](None)
    world.turn()
    assert (world.offsets, ada.told) == ([0], [(0, 0, True)])


# --- failures that stay ---


def test_records_that_are_refused_are_archived_without_dead_letters(said: Callable[[], list[str]]) -> None:
    world, ada = World(dlq(2)), owner()
    world.has(3)
    world.give_up(ada, 0, 2)
    world.turn()
    world.only().answer(ErrorCode.INVALID_RECORD, "A compacted topic needs keys.")
    assert said() == [
        "records are archived without dead letters group=jobs records='orders-0 0–2' "
        "why='INVALID_RECORD: A compacted topic needs keys.'"
    ]
    assert (ada.told, world.waits, world.queue.under_way) == ([(0, 2, False)], [], 0)
    count = world.queue.counts.of("jobs")
    assert (count.records, count.requests, count.failures) == (0, 1, 1)


def test_a_batch_that_became_too_large_is_written_in_smaller_ones(said: Callable[[], list[str]]) -> None:
    world, ada = World(dlq(2)), owner()
    world.has(3)
    world.give_up(ada, 0, 2)
    world.turn()
    world.only().answer(ErrorCode.MESSAGE_TOO_LARGE)
    world.turn()
    sent = world.only()
    assert (sent.offsets, said()) == ([0], [])
    sent.answer(ErrorCode.MESSAGE_TOO_LARGE, "It has 7 bytes.")
    (line,) = said()
    assert "why='MESSAGE_TOO_LARGE: It has 7 bytes.'" in line
    world.turn()
    world.only().answer()
    assert ada.told == [(0, 0, False), (1, 2, True)]


def test_without_a_topic_records_are_archived_with_the_reason(said: Callable[[], list[str]]) -> None:
    world, ada = World(dlq()), owner()
    assert world.queue.wanted("jobs")
    world.set(dead_letter_topic="")
    assert not world.queue.wanted("jobs")
    world.give_up(ada, 0, 4, cause=GiveUpCause.RESUMED)
    world.give_up(ada, 7)
    world.turn()
    assert [line.partition(" why=")[2] for line in said()] == [
        "'the group has no errors.deadletterqueue.topic.name'"
    ] * 2
    assert (ada.told, world.queue.under_way) == ([(0, 4, False), (7, 7, False)], 0)


# --- leaders ---


def test_the_next_leader_goes_on_and_this_one_writes_nothing(said: Callable[[], list[str]]) -> None:
    world, ada = World(dlq(1)), owner()
    world.has(1)
    world.give_up(ada, 0)
    world.elect(topic(replicas=(1, 2), leader=2, leader_epoch=1, partition_epoch=1))
    world.turn()
    assert (world.offsets, ada.told, said(), world.queue.under_way) == ([], [], [], 0)


def test_what_was_given_up_in_an_earlier_epoch_is_left_to_the_next_load(said: Callable[[], list[str]]) -> None:
    world, ada = World(dlq(1)), owner()
    world.has(1)
    world.give_up(ada, 0)
    world.elect(topic(replicas=(1,), leader_epoch=1, partition_epoch=1))
    world.turn()
    assert (world.offsets, ada.told, said(), world.queue.under_way) == ([], [], [], 0)


def test_a_leader_of_a_later_epoch_goes_on_with_what_it_has_read() -> None:
    world, ada, later = World(dlq(2)), owner(), owner(epoch=1)
    world.has(2)
    world.give_up(ada, 0)
    world.give_up(ada, 1)
    world.elect(topic(replicas=(1,), leader_epoch=1, partition_epoch=1))
    world.give_up(later, 1, count=5, cause=GiveUpCause.RESUMED)
    world.turn()
    sent = world.only()
    assert sent.offsets == [1]
    sent.answer()
    assert (ada.told, later.told) == ([], [(1, 1, True)])


def test_a_share_partition_that_is_loaded_anew_gives_up_in_place_of_the_one_before() -> None:
    world, before, after = World(dlq(2)), owner(), owner()
    world.has(2)
    world.give_up(before, 0)
    world.give_up(before, 1)
    world.give_up(after, 0, cause=GiveUpCause.RESUMED)
    world.give_up(after, 1, cause=GiveUpCause.RESUMED)
    world.turn()
    sent = world.only()
    assert sent.offsets == [0, 1]
    sent.answer()
    assert (before.told, after.told) == ([], [(0, 0, True), (1, 1, True)])


@pytest.mark.parametrize(("count", "message"), [(4, REJECTED), (5, DELIVERY_LIMIT)])
def test_why_an_earlier_leader_has_given_up_is_told_by_the_deliveries(count: int, message: str) -> None:
    world = World(dlq(1))
    world.has(1)
    world.give_up(owner(), 0, count=count, cause=GiveUpCause.RESUMED)
    world.turn()
    told = DeadLetterHeaders.decode(world.letters[0].headers)
    assert told is not None
    assert told.message == message


def test_a_broker_that_stops_leaves_the_rest_to_the_next_leader(said: Callable[[], list[str]]) -> None:
    world, waits, sent, ready = World(dlq(2), partitions=3), owner(0), owner(1), owner(2)
    for each in (waits, sent, ready):
        world.has(1, each.tp)
        world.give_up(each, 0)
        if each is waits:
            world.turn()
            world.only().fail()
        elif each is sent:
            world.turn()
    world.queue.stop()
    world.calls.stop()
    world.purgatory.shutdown()
    world.only().fail(ConnectionAbortedError("this broker stops"))
    world.turn()
    assert (waits.told, sent.told, ready.told, said()) == ([], [], [], [])
    assert (world.queue.under_way, world.purgatory.operations()) == (0, [])


def test_a_broker_that_stops_gives_nothing_up_whose_last_try_fails(said: Callable[[], list[str]]) -> None:
    world, ada = World(dlq(2)), owner()
    world.has(1)
    world.give_up(ada, 0)
    for wait_ms in (2_000, 4_000, 8_000, 16_000):
        world.turn()
        world.only().fail()
        world.advance_ms(wait_ms)
    world.turn()
    world.queue.stop()
    world.only().fail(ConnectionAbortedError("this broker stops"))
    assert (ada.told, said(), world.queue.under_way) == ([], [], 0)


def test_a_deleted_topic_has_no_dead_letters_any_more() -> None:
    world, ada = World(dlq(1)), owner()
    world.has(1)
    world.give_up(ada, 0)
    world.elect(deleted=["orders"])
    world.turn()
    assert (world.offsets, world.queue.under_way) == ([], 0)
