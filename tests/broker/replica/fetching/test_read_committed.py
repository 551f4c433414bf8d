"""Fetches under read_committed: what they may read, what they are told, and what ends their wait."""

from __future__ import annotations

from dataclasses import replace

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchParams, PartitionFetch
from purgatorio.broker.replica.fetching.reader import MANY_ABORTED
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import AbortedTransaction, FetchPartition
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.batches import batches_of
from tests.broker.replica.harness import MIB, ORDERS, Harness, topic
from tests.broker.replica.transactions import coordinator_of, send

OTHER = TopicPartition("other", 0)


def write(broker: Harness, producer_id: int = 7, *, sequence: int = 0) -> None:
    """Append a record of a transaction, as the broker itself does for a coordinator."""
    batch = build_batch(
        [Record(0, 1000, None, b"value")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    append(broker, batch)


def end(broker: Harness, producer_id: int = 7, *, committed: bool = True) -> None:
    """Append the marker that ends a producer's transaction."""
    append(
        broker,
        build_end_marker(EndMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=1000),
    )


def append(broker: Harness, batch: bytes) -> None:
    results: list[int] = []
    broker.replicas.append(
        [(ORDERS, batch)],
        acks=1,
        timeout_ms=0,
        done=lambda answers: results.extend(answer.error_code for answer in answers),
        from_client=False,
    )
    assert results == [ErrorCode.NONE]


def partition_fetch(offset: int) -> PartitionFetch:
    """The partition in a fetch from an offset."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, current_leader_epoch=-1, partition_max_bytes=MIB)
    return PartitionFetch(ORDERS, None, wanted)


def level(broker: Harness) -> None:
    """Let the followers have everything."""
    end_offset = broker.partition().log.log_end_offset
    broker.follow((2, end_offset), (3, end_offset))


def checks(broker: Harness) -> int:
    """The checks of the consumer's parked fetch."""
    (operation,) = [each for each in broker.fetch_purgatory.operations(10) if each.client == "consumer"]
    return operation.checks


def test_a_consumer_is_told_of_the_aborted_transactions_in_what_it_reads(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    for producer_id in (7, 8):
        write(broker, producer_id)
    end(broker, 7, committed=False)
    end(broker, 8)
    data = broker.fetch((ORDERS, 0), read_committed=True).data
    assert len(batches_of(data.records or [])) == 4
    assert data.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]
    assert broker.fetch((ORDERS, 3), read_committed=True).data.aborted_transactions == []
    one_batch = broker.fetch((ORDERS, 1), read_committed=True, partition_max_bytes=1).data
    assert one_batch.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]


def test_a_reader_is_told_of_many_aborted_transactions(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    producer_ids = list(range(50, 50 - 2 * MANY_ABORTED, -1))
    for producer_id in producer_ids:
        write(broker, producer_id)
    for producer_id in reversed(producer_ids):  # readers want the order of the first offsets
        end(broker, producer_id, committed=False)
    data = broker.fetch((ORDERS, 0), read_committed=True).data
    assert list(data.aborted_transactions or ()) == [
        AbortedTransaction(producer_id=producer_id, first_offset=offset)
        for offset, producer_id in enumerate(producer_ids)
    ]


def test_other_readers_are_told_of_no_aborted_transactions(broker: Harness) -> None:
    """Null, not an empty list: franz-go drops records for what such a list names (its issue 758)."""
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    write(broker)
    end(broker, committed=False)
    assert broker.fetch((ORDERS, 0)).data.aborted_transactions is None
    assert broker.fetch((ORDERS, 0), replica_id=2, read_committed=True).data.aborted_transactions is None


def test_it_reads_up_to_the_last_stable_offset(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    broker.produce(acks=1)
    write(broker)
    broker.produce(acks=1)
    data = broker.fetch((ORDERS, 0), read_committed=True).data
    assert (len(batches_of(data.records or [])), data.last_stable_offset, data.high_watermark) == (1, 1, 3)
    assert len(batches_of(broker.fetch((ORDERS, 0)).data.records or [])) == 3


def test_it_waits_until_the_marker_is_committed(broker: Harness) -> None:
    write(broker)
    level(broker)
    waiting = broker.fetch((ORDERS, 0), read_committed=True)
    end(broker)
    assert not waiting.answered
    level(broker)
    assert len(batches_of(waiting.data.records or [])) == 2


def test_an_advance_of_the_high_watermark_alone_does_not_even_check_it(broker: Harness) -> None:
    write(broker)
    level(broker)
    waiting = broker.fetch((ORDERS, 0), read_committed=True, max_wait_ms=60_000)
    before = checks(broker)
    for _ in range(3):
        broker.produce(acks=1)
        level(broker)
    assert checks(broker) == before
    end(broker)
    level(broker)
    assert waiting.answered


def test_without_a_follower_the_marker_itself_ends_the_wait_and_no_append_before_it(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    write(broker)
    waiting = broker.fetch((ORDERS, 0), read_committed=True, max_wait_ms=60_000)
    before = checks(broker)
    broker.produce(acks=1)
    write(broker, sequence=1)
    assert checks(broker) == before
    end(broker)
    assert len(batches_of(waiting.data.records or [])) == 4


def test_it_is_woken_also_by_what_is_committed_outside_of_transactions(broker: Harness) -> None:
    waiting = broker.fetch((ORDERS, 0), read_committed=True)
    broker.produce(acks=1)
    assert not waiting.answered
    level(broker)
    assert len(batches_of(waiting.data.records or [])) == 1


def test_a_new_segment_behind_what_it_may_read_ends_its_wait(broker: Harness) -> None:
    """As for any consumer: what lies on an older segment is enough to read."""
    broker.set_topics(topic(partition_epoch=1, segment_bytes="100"))
    broker.produce(acks=1)
    level(broker)
    for read_committed in (False, True):
        last_offset = broker.partition().log.log_end_offset - 1
        waiting = broker.fetch((ORDERS, last_offset), read_committed=read_committed, min_bytes=100_000)
        assert not waiting.answered
        broker.produce(acks=1)
        assert waiting.answered
        level(broker)


def test_a_deletion_of_what_a_transaction_held_back_ends_the_wait(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    write(broker)
    waiting = broker.fetch((ORDERS, 0), read_committed=True)
    broker.replicas.delete_records([(ORDERS, 1)], timeout_ms=0, done=lambda results: None)
    assert waiting.data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_at_a_follower_it_is_woken_when_the_follower_learns_that_the_marker_is_committed(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    write(broker)
    end(broker)
    records = batches_of(broker.partition().log.read(0, max_bytes=10_000, end_offset=2).parts)
    follower = Harness()
    follower.set_topics(topic(leader=2, isr=(1, 2)))
    replica = follower.partition()
    follower.replicas.append_as_follower(replica, records[0], 1, 0)
    params = FetchParams(-1, 500, 1, MIB, read_committed=True, may_read_followers=True)
    fetches = [partition_fetch(0)]
    waiting = follower.send(FetchContext(params, fetches), fetches)
    assert (replica.high_watermark, replica.last_stable_offset) == (1, 0)
    follower.replicas.append_as_follower(replica, records[1], 1, 0)
    assert not waiting.answered
    follower.replicas.append_as_follower(replica, b"", 2, 0)
    assert len(batches_of(waiting.data.records or [])) == 2


def test_it_tells_which_transaction_it_waits_for_and_for_how_long(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1), topic("other", isr=(1,)))
    write(broker)
    broker.fetch((ORDERS, 0), (OTHER, 0), read_committed=True, max_wait_ms=60_000)
    broker.advance_ms(2_100)
    (operation,) = broker.fetch_purgatory.operations(10)
    assert in_words(operation.causes) == (
        "consumer has 0 of 1 bytes: "
        "orders-0 from 0 waits for the transaction of producer 7 (open 2.1 s), other-0 from 0"
    )


def test_it_names_the_transactional_id_if_this_broker_knows_it(broker: Harness) -> None:
    broker.set_topics(topic(isr=(1,), partition_epoch=1))
    coordinator_of(broker, ErrorCode.NONE)
    send(broker)
    broker.fetch((ORDERS, 0), read_committed=True)
    (operation,) = broker.fetch_purgatory.operations(10)
    assert in_words(operation.causes).endswith("waits for the transaction of `billing-1` (open 0.0 s)")


def test_it_tells_that_the_end_of_a_transaction_is_not_committed_yet(broker: Harness) -> None:
    write(broker)
    level(broker)
    end(broker)
    broker.fetch((ORDERS, 0), read_committed=True)
    (operation,) = [each for each in broker.fetch_purgatory.operations(10) if each.client == "consumer"]
    assert in_words(operation.causes) == (
        "consumer has 0 of 1 bytes: orders-0 from 0 waits for the end of the transaction of producer 7 to be committed"
    )


def test_an_isolation_level_that_changes_within_a_session_leaves_nothing_behind(broker: Harness) -> None:
    """See `FetchWatch.discard`."""
    fetches = [partition_fetch(0)]
    params = FetchParams(-1, 500, 1, MIB, read_committed=True)
    session = broker.fetch_sessions.open(params, fetches, by_topic_id=False, owner="client")
    assert session is not None
    broker.send(session, fetches)
    broker.fetch_sessions.accept(session, replace(params, read_committed=False), [], [])
    broker.send(session, [])
    broker.fetch_sessions.close(session)
    assert broker.replicas._events.watch.partitions() == []


def test_clients_append_no_marker_and_no_transaction_without_its_id(broker: Harness) -> None:
    batch = build_batch(
        [Record(0, 1000, None, b"value")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    assert broker.produce(records=batch, acks=1).error_codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    marker = build_end_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp_ms=0)
    assert broker.produce(records=marker, acks=1).error_codes != [ErrorCode.NONE]


def test_a_broker_that_does_not_lead_appends_no_marker(broker: Harness) -> None:
    broker.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    marker = build_end_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp_ms=0)
    codes: list[int] = []
    broker.replicas.append(
        [(ORDERS, marker)],
        acks=-1,
        timeout_ms=0,
        done=lambda answers: codes.extend(answer.error_code for answer in answers),
        from_client=False,
    )
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert broker.partition().refused.first == {}
