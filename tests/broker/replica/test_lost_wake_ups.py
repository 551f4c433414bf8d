"""What a parked request waits for comes by a way that is easily forgotten: the request is completed at once."""

from __future__ import annotations

from dataclasses import replace

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import ORDERS, Harness, topic


def retain_nothing(broker: Harness) -> None:
    """Apply retention.bytes=0 to a log of two segments, of which the first is closed."""
    broker.set_topics(topic(partition_epoch=1, segment_bytes="100", retention_bytes="0"))
    for _ in broker.replicas.retention_steps():
        pass


def test_a_follower_that_waits_at_the_end_learns_at_once_that_the_log_starts_later(broker: Harness) -> None:
    broker.set_topics(topic(partition_epoch=1, segment_bytes="100"))
    for _ in range(3):
        broker.produce(acks=1)
    waiting = broker.follow((2, 3), (3, 3))[0]
    assert not waiting.answered
    retain_nothing(broker)
    assert waiting.data.log_start_offset > 0


def test_a_consumer_that_waits_for_bytes_that_are_deleted_is_told_so_at_once(broker: Harness) -> None:
    broker.set_topics(topic(partition_epoch=1, segment_bytes="100"))
    broker.produce(acks=1)
    broker.follow((2, 1), (3, 1))
    waiting = broker.fetch((ORDERS, 0), min_bytes=10_000)
    assert not waiting.answered
    retain_nothing(broker)
    assert waiting.data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_that_waits_learns_at_once_that_another_partition_has_taken_its_records_memory(
    broker: Harness,
) -> None:
    payments = TopicPartition("payments", 0)
    broker.set_topics(topic(partition_epoch=1, segment_bytes="100"), topic("payments"))
    for _ in range(3):
        broker.produce(acks=1)
    waiting = broker.follow((2, 3), (3, 3))[0]
    broker.fetch((payments, 0), replica_id=2)
    assert not waiting.answered
    broker.replicas.memory.limit_bytes = broker.replicas.memory.used_bytes
    assert broker.produce(payments, acks=1).error_codes == [ErrorCode.NONE]
    assert waiting.data.log_start_offset > 0


def test_retention_that_deletes_nothing_wakes_no_request(broker: Harness) -> None:
    waiting = broker.fetch((ORDERS, 0))
    for _ in broker.replicas.retention_steps():
        pass
    assert not waiting.answered
    assert [finished.cause for finished in broker.finished] == []


def test_a_follower_that_consumers_may_read_from_again_learns_the_high_watermark_at_once(broker: Harness) -> None:
    """It fetched while it was fenced, when no consumer could be sent to it."""
    in_racks = {i: replace(registered, rack=f"r{i}") for i, registered in broker.brokers.items()}
    broker.brokers = {**in_racks, 2: replace(in_racks[2], fenced=True)}
    broker.set_topics(topic(isr=(1, 3), partition_epoch=1))
    broker.produce(acks=1)
    broker.follow((3, 1))
    waiting = broker.follow((2, 1))[0]
    assert not waiting.answered
    broker.brokers = in_racks
    broker.set_topics(*broker.image.topics.values())
    assert waiting.data.high_watermark == 1


def test_an_error_in_a_response_to_a_follower_says_nothing_of_the_high_watermark_that_it_knows(broker: Harness) -> None:
    """A fetch that waits, and one of the follower's next incarnation that is refused: seed 382 of the simulation."""
    broker.brokers = {i: replace(registered, rack=f"r{i}") for i, registered in broker.brokers.items()}
    broker.set_topics(topic(partition_epoch=1))
    broker.produce(acks=1)
    broker.follow((2, 1), (3, 1), (2, 1))
    waiting = broker.follow((2, 1))[0]
    sent = broker.partition().followers[2].last_sent_high_watermark
    refused = broker.fetch((ORDERS, 99), replica_id=2)
    assert (sent, refused.data.error_code) == (1, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert not waiting.answered
    assert broker.partition().followers[2].last_sent_high_watermark == sent


def test_the_fetch_of_the_last_follower_acknowledges_at_once_with_no_other_event(broker: Harness) -> None:
    produced = broker.produce()
    broker.follow((2, 1))
    assert not produced.answered
    broker.follow((3, 1))
    assert produced.error_codes == [ErrorCode.NONE]
