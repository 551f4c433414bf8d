"""Fetches of what only the tier has."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.kinds import REMOTE_FETCH
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchParams, PartitionFetch
from purgatorio.broker.tier import reads
from purgatorio.broker.tier.names import LOG, segment_of
from purgatorio.broker.tier.store import NotThere, Unavailable
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FetchPartition
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.replica.harness import MIB, Fetched, topic
from tests.broker.replica.tiered import ORDERS, TIERED, Tiered, bases, record_batch, tiered
from tests.broker.replica.transactions import coordinator_of, end, send


def waiting(broker: Tiered) -> list[str]:
    """The sentences of the fetches that wait for the tier."""
    return [in_words(each.causes) for each in broker.purgatories.of(REMOTE_FETCH).operations()]


async def test_a_consumer_gets_what_only_the_tier_has() -> None:
    async with tiered() as broker:
        fetched = broker.fetch((ORDERS, 1))
        assert not fetched.answered
        await broker.turns()
        assert (fetched.data.error_code, bases(fetched.data)) == (ErrorCode.NONE, [1])
        assert (fetched.data.high_watermark, fetched.data.log_start_offset) == (7, 0)
        assert broker.observed.named("fetched") == [(ORDERS, fetched.size_bytes)]


async def test_a_consumer_reads_on_from_the_tier_into_memory_without_a_gap() -> None:
    async with tiered() as broker:
        offset, read = 0, list[int]()
        while offset < 7:
            fetched = broker.fetch((ORDERS, offset))
            await broker.turns()
            read += bases(fetched.data)
            offset = read[-1] + 1
        assert read == list(range(7))


async def test_a_follower_is_told_that_the_tier_has_it() -> None:
    async with tiered(replicas=(1, 2), copies=False) as broker:
        broker.fill()
        broker.follow((2, 7))
        await broker.copy()
        assert broker.partition().log.local_start_offset == 4
        fetched = broker.fetch((ORDERS, 3), replica_id=2)
        assert fetched.data.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        assert broker.partition().followers[2].log_end_offset == 7, "it is no progress"
        assert broker.fetch((ORDERS, 4), replica_id=2).data.error_code == ErrorCode.NONE
        assert broker.store.calls[-1] == ("put", "json")


async def test_what_is_deleted_is_out_of_range_also_in_the_tier() -> None:
    async with tiered() as broker:
        broker.partition().log.advance_log_start(2)
        assert broker.fetch((ORDERS, 1)).data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_local_parts_wait_for_those_of_the_tier_and_are_answered_as_they_were() -> None:
    async with tiered(copies=False) as broker:
        other = TopicPartition("bills", 0)
        broker.set_topics(topic(replicas=(1,), **TIERED), topic("bills", replicas=(1,)))
        broker.fill()
        broker.produce(other, acks=1)
        await broker.copy()
        broker.store.gate.clear()
        fetched = broker.fetch((ORDERS, 0), (other, 0), partition_max_bytes=1_000)
        await broker.turns()
        broker.produce(other, acks=1)
        broker.store.gate.set()
        await broker.turns()
        assert [(bases(data), data.high_watermark) for data in fetched.partitions] == [([0, 1], 7), ([0], 1)]


async def test_a_broker_whose_lease_has_run_out_answers_at_once() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        fetched = broker.fetch((ORDERS, 0))
        await broker.turns()
        broker.may_lead = False
        broker.replicas.lease_lost()
        assert fetched.data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_at_the_deadline_the_part_is_empty_without_an_error_and_the_read_goes_on() -> None:
    """Apache Kafka reads one segment again and again, and gives the consumer nothing (tiered.md: 0 records in 15 s)."""
    async with tiered() as broker:
        broker.store.gate.clear()
        first = broker.fetch((ORDERS, 0), max_wait_ms=10)
        await broker.turns(499)
        assert not first.answered
        await broker.turns(1)
        assert (first.data.error_code, bases(first.data), first.data.high_watermark) == (ErrorCode.NONE, [], 7)
        second = broker.fetch((ORDERS, 0))
        await broker.turns(200)
        assert broker.store.calls.count(("get", "log")) == 1
        broker.store.gate.set()
        await broker.turns()
        assert bases(second.data) == [0, 1]
        assert [each.outcome for each in broker.finished] == ["expired", "completed"]


async def test_who_waits_is_said_in_words() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        broker.fetch((ORDERS, 1))
        await broker.turns(340)
        assert waiting(broker) == ["waits for orders-0 [0, 2) to come back from the memory store: 340 ms"]
        broker.fetch((ORDERS, 0))
        assert (
            waiting(broker)[1]
            == "waits for orders-0 [0, 2) to come back from the memory store: 340 ms; it joins another fetch's read"
        )


async def test_a_try_that_failed_is_said_with_its_reason() -> None:
    async with tiered() as broker:
        broker.store.troubles["get"] = [Unavailable("503")]
        broker.fetch((ORDERS, 0))
        await broker.turns(20)
        assert waiting(broker) == [
            "waits for orders-0 [0, 2) to come back from the memory store: 20 ms, first try (503)"
        ]


async def test_a_missing_object_is_an_error_and_never_a_gap() -> None:
    async with tiered() as broker:
        broker.store.troubles["get"] = [NotThere("it is gone")]
        fetched = broker.fetch((ORDERS, 0))
        await broker.turns()
        assert (fetched.data.error_code, bases(fetched.data)) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


async def test_an_object_that_was_cut_is_an_error_and_never_a_gap() -> None:
    """Apache Kafka goes on behind it without an error (tiered.md)."""
    async with tiered() as broker:
        key = broker.store.key(".log")
        broker.store.objects[key] = broker.store.objects[key][:50]
        fetched = broker.fetch((ORDERS, 0))
        for _ in range(20):
            await broker.turns(20)
        assert not fetched.answered
        for _ in range(10):
            await broker.turns(20)
        assert bases(fetched.data) == []
        await broker.clock.run_for(30_000)
        again = broker.fetch((ORDERS, 0))
        await broker.turns()
        await broker.clock.run_for(30_000)
        await broker.turns()
        assert again.data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_lost_leadership_answers_at_once() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        fetched = broker.fetch((ORDERS, 0))
        await broker.turns()
        broker.set_topics(topic(leader=2, leader_epoch=1, replicas=(1, 2), partition_epoch=1, **TIERED))
        assert fetched.data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetched.data.high_watermark == -1


async def test_a_broker_that_stops_answers_what_waits() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        fetched = broker.fetch((ORDERS, 0))
        broker.purgatories.of(REMOTE_FETCH).shutdown()
        assert fetched.data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_new_leader_waits_until_it_knows_what_the_tier_has() -> None:
    async with tiered() as broker:
        broker.partition().remote = None
        broker.partition().log.epochs.assign(0, 0)
        fetched = broker.fetch((ORDERS, 0))
        await broker.turns()
        assert waiting(broker) == ["waits to hear what the memory store has of orders-0"]
        await broker.tiering.round()
        await broker.turns()
        assert bases(fetched.data) == [0, 1]


async def test_a_store_that_does_not_list_is_named() -> None:
    async with tiered() as broker:
        broker.partition().remote = None
        broker.store.troubles["list"] = [Unavailable("503")]
        broker.fetch((ORDERS, 0))
        await broker.tiering.round()
        assert waiting(broker) == ["waits to hear what the memory store has of orders-0 (503)"]


async def test_a_fetch_takes_all_parts_that_are_in_the_cache_and_goes_on_in_the_next_segment() -> None:
    async with tiered() as broker:
        assert len(broker.tiering.remote_of(broker.partition()).segments) == 3
        broker.fetch((ORDERS, 2), partition_max_bytes=1)
        await broker.turns()
        fetched = broker.fetch((ORDERS, 0))
        await broker.turns()
        assert bases(fetched.data) == [0, 1, 2, 3]
        size_bytes = len(record_batch())
        limited = broker.fetch((ORDERS, 1), partition_max_bytes=2 * size_bytes)
        assert (bases(limited.data), limited.size_bytes) == ([1, 2], 2 * size_bytes)


async def test_who_reads_on_finds_the_next_part_in_the_cache() -> None:
    async with tiered() as broker:
        first = broker.fetch((ORDERS, 1))
        await broker.turns()
        assert bases(first.data) == [1]
        assert broker.fetch((ORDERS, 2)).answered, "it was read ahead"
        broker.store.calls.clear()
        broker.fetch((ORDERS, 0), partition_max_bytes=1)
        await broker.turns()
        assert broker.store.calls == [], "who reads a part not to its end is not taken to read on"


async def test_what_was_aborted_behind_the_first_part_is_told_too() -> None:
    async with tiered(copies=False) as broker:
        coordinator_of(broker, ErrorCode.NONE)
        broker.fill(2)
        send(broker, 0)
        end(broker, committed=False)
        broker.fill()
        await broker.copy()
        for offset in (2, 0):
            fetched = broker.fetch((ORDERS, offset), read_committed=True)
            await broker.turns()
        assert bases(fetched.data)[:4] == [0, 1, 2, 3]
        aborted = fetched.data.aborted_transactions or ()
        assert [each.first_offset for each in aborted] == [2]


async def test_a_session_is_told_of_what_came_from_the_tier() -> None:
    async with tiered() as broker:

        def named(offset: int) -> tuple[FetchParams, list[PartitionFetch]]:
            request = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
            return FetchParams(-1, 500, 1, MIB, client="billing"), [PartitionFetch(ORDERS, None, request)]

        params, fetches = named(0)
        session = broker.fetch_sessions.open(params, fetches, by_topic_id=False, owner=object())
        assert session is not None
        first = broker.send(session, fetches)
        await broker.turns()
        assert bases(first.data) == [0]
        broker.store.gate.clear()
        late = broker.send(session, broker.fetch_sessions.accept(session, *named(2), [])[0])
        await broker.turns(500)
        assert bases(late.data) == [], "it is listed, but not taken for told"
        broker.store.gate.set()
        await broker.turns()
        again = broker.send(session, broker.fetch_sessions.accept(session, *named(2), [])[0])
        await broker.turns()
        assert bases(again.data) == [2]


@pytest.mark.parametrize("max_bytes", [1, 100])
async def test_the_first_batch_may_be_larger_than_the_limit(max_bytes: int) -> None:
    async with tiered() as broker:
        fetched = broker.fetch((ORDERS, 0), partition_max_bytes=max_bytes)
        await broker.turns()
        assert bases(fetched.data) == [0]


async def test_a_response_that_is_full_reads_nothing_more_from_the_tier() -> None:
    async with tiered(copies=False) as broker:
        bills = TopicPartition("bills", 0)
        broker.set_topics(topic(replicas=(1,), **TIERED), topic("bills", replicas=(1,), **TIERED))
        broker.fill()
        for number in range(7):
            broker.produce(bills, acks=1, records=record_batch(1_700_000_000_000 + number))
        await broker.copy()
        broker.store.calls.clear()
        fetched = broker.fetch((ORDERS, 0), (bills, 0), max_bytes=100, partition_max_bytes=100)
        await broker.turns()
        assert [bases(data) for data in fetched.partitions] == [[0], []]
        assert broker.store.calls == [("get", "log")]


def transaction(log: Log, producer_id: int, *, begins: bool) -> None:
    """Append a record of a transaction, or the marker that aborts it."""
    now_ms = 1_700_000_000_000
    if begins:
        records = [Record(0, now_ms, None, b"value" * 4, ())]
        batch = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        log.append_as_leader(batch, leader_epoch=0, wall_ms=now_ms)
    else:
        marker = EndMarker(committed=False, coordinator_epoch=0)
        batch = build_end_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=now_ms)
        log.append_as_leader(batch, leader_epoch=0, wall_ms=now_ms, from_client=False)
    log.commit_to(log.log_end_offset)


def fetch_committed(broker: Tiered) -> Fetched:
    """Fetch from the start as a consumer that may read followers."""
    params = FetchParams(-1, 500, 1, MIB, read_committed=True, may_read_followers=True)
    fetch = PartitionFetch(ORDERS, None, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB))
    return broker.send(FetchContext(params, [fetch]), [fetch])


@pytest.mark.parametrize("leads", [True, False])
async def test_read_committed_gets_an_error_while_a_segment_with_markers_is_not_known(leads: bool) -> None:
    """A leader that has read a damaged description, and a follower whose list is old, do not know what was aborted."""
    async with tiered(copies=False) as broker:
        log = broker.partition().log
        transaction(log, 7, begins=True)
        broker.fill(3)
        transaction(log, 7, begins=False)
        broker.fill(6)
        await broker.copy()
        assert log.local_start_offset > 6
        names = {key: name for key in broker.store.objects if (name := segment_of(key)) is not None}
        marked = max((key for key, name in names.items() if name.start_offset <= 4), key=names.__getitem__)
        data = broker.store.objects.pop(marked)
        remote = broker.partition().remote
        assert remote is not None
        remote._described.clear()
        await remote.list(broker.store, leader_epoch=1)
        remote.settle(log)
        leader = 1 if leads else 2
        broker.set_topics(topic(replicas=(1, 2), leader=leader, leader_epoch=1, partition_epoch=1, **TIERED))
        fetched = fetch_committed(broker)
        await broker.turns()
        wanted = ErrorCode.UNKNOWN_SERVER_ERROR if leads else ErrorCode.OFFSET_NOT_AVAILABLE
        assert (fetched.data.error_code, bases(fetched.data)) == (wanted, [])
        broker.store.objects[marked] = data
        await remote.list(broker.store, leader_epoch=1)
        again = fetch_committed(broker)
        await broker.turns()
        assert [(each.producer_id, each.first_offset) for each in again.data.aborted_transactions or ()] == [(7, 0)]


async def test_a_follower_whose_list_is_old_lists_again_after_a_read_that_failed() -> None:
    """The leader deletes copies that others made of the same records."""
    async with tiered() as broker:
        broker.set_topics(topic(replicas=(1, 2), leader=2, leader_epoch=1, partition_epoch=1, **TIERED))
        for key in [key for key in broker.store.objects if segment_of(key) or segment_of(key, LOG)]:
            broker.store.objects[key.replace("-" + "0" * 20, "-" + "f" * 20)] = broker.store.objects.pop(key)
        fetched = fetch_committed(broker)
        await broker.turns()
        assert (fetched.data.error_code, broker.store.calls.count(("get", "log"))) == (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            1,
        )
        await broker.tiering.round()
        again = fetch_committed(broker)
        await broker.turns()
        assert bases(again.data) == [0, 1]


async def test_read_committed_hears_of_aborted_transactions_of_the_tier() -> None:
    """Their markers may be in a later segment, or in memory."""
    async with tiered(copies=False) as broker:
        log = broker.partition().log
        transaction(log, 7, begins=True)
        broker.fill(2)
        transaction(log, 7, begins=False)
        transaction(log, 8, begins=True)
        transaction(log, 8, begins=False)
        broker.fill(4)
        await broker.copy()
        assert log.local_start_offset > 4
        fetched = broker.fetch((ORDERS, 0), read_committed=True)
        await broker.turns()
        aborted = fetched.data.aborted_transactions
        assert bases(fetched.data) == [0, 1]
        assert [(each.producer_id, each.first_offset) for each in aborted or ()] == [(7, 0)]
        again = broker.fetch((ORDERS, 4), read_committed=True)
        await broker.turns()
        assert [(each.producer_id, each.first_offset) for each in again.data.aborted_transactions or ()] == [(8, 4)]


async def test_when_too_many_reads_wait_the_partition_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kafka (remote.log.reader.max.pending.tasks)."""
    monkeypatch.setattr(reads, "MAX_WAITING", 1)
    async with tiered() as broker:
        first, second = broker.fetch((ORDERS, 0)), broker.fetch((ORDERS, 2))
        assert second.data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        await broker.turns()
        assert first.data.error_code == ErrorCode.NONE


# --- the quota of reads (KIP-956) ---


def held_back(broker: Tiered) -> list[str]:
    """The sentences of the fetches that wait for records."""
    return [in_words(each.causes) for each in broker.fetch_purgatory.operations()]


async def test_above_the_quota_a_fetch_waits_as_if_there_were_no_records_and_goes_on_when_there_is_room() -> None:
    async with tiered() as broker:
        broker.tiering.reads.traffic.reads.limit = 10
        first = broker.fetch((ORDERS, 0), max_wait_ms=60_000, partition_max_bytes=1)
        await broker.turns()
        assert bases(first.data) == [0], "no bytes have come before"
        second = broker.fetch((ORDERS, 2), max_wait_ms=60_000)
        await broker.turns()
        assert not second.answered
        (said,) = held_back(broker)
        assert said.startswith("consumer has 0 of 1 bytes: orders-0 from 2 waits for the quota on reads of the tier: ")
        assert said.endswith(" of 10 B/s")
        for _ in range(300):
            await broker.turns(100)
        assert bases(second.data) == [2, 3]


async def test_at_its_deadline_a_fetch_above_the_quota_is_empty_without_an_error() -> None:
    async with tiered() as broker:
        broker.tiering.reads.traffic.reads.limit = 10
        broker.tiering.reads.traffic.reads.record(1_000_000)
        fetched = broker.fetch((ORDERS, 0), max_wait_ms=500)
        await broker.turns(500)
        assert (fetched.data.error_code, bases(fetched.data)) == (ErrorCode.NONE, [])


async def test_what_the_cache_has_is_sent_whatever_the_quota_says() -> None:
    async with tiered() as broker:
        broker.fetch((ORDERS, 0), partition_max_bytes=1)
        await broker.turns()
        broker.tiering.reads.traffic.reads.limit = 1
        assert broker.tiering.reads.traffic.reads.is_over()
        fetched = broker.fetch((ORDERS, 0))
        assert bases(fetched.data) == [0, 1]
        await broker.turns()
        assert broker.store.calls.count(("get", "log")) == 1, "nothing is read ahead above the quota"
