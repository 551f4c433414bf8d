"""Histories of one topic's log: what is produced, fetched, looked up and deleted, and what is refused.

An era is a version; each API is asked in the nearest one that it has.
"""

from __future__ import annotations

from typing import Any

from purgatorio.protocol.compression import Compression
from purgatorio.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from purgatorio.protocol.messages.delete_topics import DeleteTopicsRequest
from purgatorio.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.compat.same_answers.talk import UNKNOWN_ID, Answer, Talk

START_MS = 1_700_000_000_000
LARGER_THAN_ALLOWED = 1_100_000


def batch(count: int = 1, *, at_ms: int = START_MS, key: bytes | None = b"k", value: bytes = b"v", **of: Any) -> bytes:
    """A batch of records that are a second apart."""
    records = [Record(number, at_ms + 1000 * number, key, value, ()) for number in range(count)]
    return build_batch(records, **of)


def produce(topic: str, *partitions: tuple[int, bytes | None], acks: int = -1, **fields: Any) -> ProduceRequest:
    """A request for partitions of one topic."""
    data = [PartitionProduceData(index=index, records=records) for index, records in partitions]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(**{"acks": acks, "timeout_ms": 10_000, "topic_data": topics, **fields})


def fetch_topic(talk: Talk, topic: str, *partitions: FetchPartition) -> FetchTopic:
    """Partitions of one topic, by name and id."""
    return FetchTopic(topic=topic, topic_id=talk.topic_ids.get(topic, UNKNOWN_ID), partitions=list(partitions))


def at(offset: int, partition: int = 0, **fields: Any) -> FetchPartition:
    """A partition to read from an offset on."""
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **fields}
    return FetchPartition(**asked)


def fetch(talk: Talk, step: str, *topics: FetchTopic, **fields: Any) -> Answer:
    """Fetch without waiting; the bytes of the records are noted, too: producers gave their times."""
    request = FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": list(topics), **fields})
    answer = talk.ask(step, request)
    for topic in answer.responses if answer is not None else ():
        for each in topic.partitions:
            read = None if each.records is None else bytes(each.records).hex()
            talk.fields.append((f"Fetch, {step}: bytes of {each.partition_index}", read))
    return answer


def list_offsets(topic: str, *asked: tuple[int, int], **fields: Any) -> ListOffsetsRequest:
    """Look up timestamps: partition and timestamp each."""
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index, timestamp in asked]
    return ListOffsetsRequest(**{"topics": [ListOffsetsTopic(name=topic, partitions=partitions)], **fields})


def produced(talk: Talk) -> None:
    """Right and wrong batches."""
    topic = talk.new_topic("log", 2)
    talk.ask("first", produce(topic, (0, batch(3)), (1, batch())))
    talk.ask("acks of one", produce(topic, (0, batch(2)), acks=1))
    talk.ask("acks of two", produce(topic, (0, batch()), acks=2))
    talk.ask("unknown partitions", produce(topic, (9, batch()), (-1, batch()), (0, batch())))
    talk.ask("unknown topic", produce("nowhere", (0, batch())))
    talk.ask("wrong name", produce("a/b", (0, batch())))
    talk.ask("no topics", produce(topic, topic_data=[]))
    talk.ask("no partitions", produce(topic))
    talk.ask("damaged", produce(topic, (0, batch()[:-1] + b"\xff")))
    talk.ask("cut off", produce(topic, (0, batch()[:-1])))
    talk.ask("a header alone", produce(topic, (0, batch()[:61])))
    talk.ask("some bytes", produce(topic, (0, b"\0" * 12)))
    talk.ask("no bytes", produce(topic, (0, b"")))
    talk.ask("two batches", produce(topic, (0, batch() * 2)))
    talk.ask("old format", produce(topic, (0, batch()[:16] + b"\1" + batch()[17:])))
    talk.ask("too large", produce(topic, (0, batch(value=b"x" * LARGER_THAN_ALLOWED))))
    talk.ask("negative timeout", produce(topic, (0, batch()), timeout_ms=-1))
    talk.ask("internal topic", produce("__consumer_offsets", (0, batch())))
    _ends(talk, topic)


def produced_again(talk: Talk) -> None:
    """To a topic that is deleted and created again, and with the ids of topics that are not there."""
    topic = talk.new_topic("again", 2)
    old_id = talk.topic_ids[topic]
    talk.ask("before", produce(topic, (0, batch(2)), (1, batch())))
    talk.ask("deleted", DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), version=5)
    talk.until("gone", lambda: produce(topic, (0, batch())), lambda answer: _codes(answer) != {0})
    talk.new_topic("again", 2)
    new_id = talk.topic_ids[topic]
    talk.ask("new", produce(topic, (0, batch(3))))
    talk.topic_ids[topic] = old_id
    talk.ask("with the old id", produce(topic, (0, batch()), (1, batch())))
    talk.topic_ids[topic] = bytes(16)
    talk.ask("with no id", produce(topic, (0, batch())))
    talk.topic_ids[topic] = new_id
    both = produce(topic, (0, batch()), (9, batch()))
    both.topic_data += produce("nowhere", (0, batch())).topic_data
    talk.ask("with others", both)
    _ends(talk, topic)


def _codes(answer: Answer) -> set[int]:
    return {each.error_code for topic in answer.responses for each in topic.partition_responses}


def produced_by_idempotent_producers(talk: Talk) -> None:
    """Sequences and epochs, without a transaction."""
    topic = talk.new_topic("sequences")
    producer = 5_000_000 + talk.era

    def send(step: str, sequence: int, epoch: int = 0, count: int = 1) -> None:
        of_producer = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
        talk.ask(step, produce(topic, (0, batch(count, **of_producer))))

    send("begins late", 5)
    send("goes on", 6, count=2)
    send("repeated", 6, count=2)
    send("gap", 9)
    send("before", 3)
    send("next epoch begins late", 4, epoch=1)
    send("next epoch", 0, epoch=1)
    send("last epoch", 8)
    send("negative epoch", 1, epoch=-1)
    send("negative sequence", -1, epoch=1)
    talk.ask("transactional id alone", produce(topic, (0, batch()), transactional_id=talk.group))
    _ends(talk, topic)


def produced_to_compacted_topics(talk: Talk) -> None:
    """Records without keys, and the times that the broker gives."""
    topic = talk.new_topic("compacted", configs={"cleanup.policy": "compact"})
    talk.ask("key", produce(topic, (0, batch(2))))
    talk.ask("no key", produce(topic, (0, batch(2, key=None))))
    timed = talk.new_topic("timed", configs={"message.timestamp.type": "LogAppendTime"})
    talk.ask("append time", produce(timed, (0, batch(2))))
    strict = talk.new_topic("strict", configs={"message.timestamp.before.max.ms": "1000", "max.message.bytes": "200"})
    talk.ask("too old", produce(strict, (0, batch(2))))
    talk.ask("too large for the topic", produce(strict, (0, batch(20))))
    small = talk.new_topic("small", configs={"max.decompressed.message.bytes": "100"})
    for size_bytes in (90, 93, 94, 200):
        for codec in (Compression.NONE, Compression.GZIP):
            records = batch(2, value=b"x" * size_bytes, compression=codec)
            talk.ask(f"{codec.name} of {size_bytes}", produce(small, (0, records)))


def _ends(talk: Talk, topic: str) -> None:
    talk.ask("ends", list_offsets(topic, (0, -1), (1, -2)))


def fetched(talk: Talk) -> None:
    """What is read, and from where nothing is."""
    topic = talk.new_topic("read", 2)
    for number in range(3):
        talk.ask(f"batch {number}", produce(topic, (0, batch(2, at_ms=START_MS + 5000 * number))))
    for offset in (0, 1, 3, 5, 6):
        fetch(talk, f"from {offset}", fetch_topic(talk, topic, at(offset)))
    fetch(talk, "beyond", fetch_topic(talk, topic, at(7)))
    fetch(talk, "negative", fetch_topic(talk, topic, at(-1)))
    fetch(talk, "unknown partitions", fetch_topic(talk, topic, at(0, 9), at(0, -1), at(0, 1)))
    fetch(talk, "unknown topic", fetch_topic(talk, "nowhere", at(0)))
    fetch(talk, "no topics")
    fetch(talk, "no partitions", fetch_topic(talk, topic))
    fetch(talk, "one byte", fetch_topic(talk, topic, at(0)), max_bytes=1)
    fetch(talk, "no bytes", fetch_topic(talk, topic, at(0)), max_bytes=0)
    fetch(talk, "one byte of a partition", fetch_topic(talk, topic, at(0, partition_max_bytes=1)))
    fetch(talk, "one batch", fetch_topic(talk, topic, at(0, partition_max_bytes=100)))
    fetch(talk, "committed", fetch_topic(talk, topic, at(2)), isolation_level=1)
    fetch(talk, "unknown isolation", fetch_topic(talk, topic, at(2)), isolation_level=7)
    fetch(talk, "waits in vain", fetch_topic(talk, topic, at(6)), max_wait_ms=50)
    fetch(talk, "epoch", fetch_topic(talk, topic, at(0, current_leader_epoch=0)))
    fetch(talk, "later epoch", fetch_topic(talk, topic, at(0, current_leader_epoch=5)))
    fetch(talk, "last epoch", fetch_topic(talk, topic, at(2, last_fetched_epoch=0)))
    fetch(talk, "later last epoch", fetch_topic(talk, topic, at(2, last_fetched_epoch=5)))
    fetch(talk, "rack", fetch_topic(talk, topic, at(0)), rack_id="somewhere")
    fetch(talk, "wrong cluster", fetch_topic(talk, topic, at(0)), cluster_id="another")


def fetch_sessions(talk: Talk) -> None:
    """Sessions of a consumer (KIP-227)."""
    topic = talk.new_topic("session", 2)
    talk.ask("some", produce(topic, (0, batch(2))))
    both = fetch_topic(talk, topic, at(0), at(0, 1))
    session = fetch(talk, "begins", both, session_epoch=0).session_id
    fetch(talk, "nothing changed", session_id=session, session_epoch=1)
    fetch(talk, "goes on", fetch_topic(talk, topic, at(2)), session_id=session, session_epoch=2)
    fetch(talk, "nothing new", session_id=session, session_epoch=3)
    talk.ask("one more", produce(topic, (1, batch())))
    fetch(talk, "news", session_id=session, session_epoch=4)
    forgotten = ForgottenTopic(topic=topic, topic_id=talk.topic_ids[topic], partitions=[1])
    fetch(talk, "forgotten", session_id=session, session_epoch=5, forgotten_topics_data=[forgotten])
    fetch(talk, "wrong epoch", session_id=session, session_epoch=9)
    fetch(talk, "right again", session_id=session, session_epoch=6)
    fetch(talk, "unknown partition", fetch_topic(talk, topic, at(0, 9)), session_id=session, session_epoch=7)
    fetch(talk, "out of range", fetch_topic(talk, topic, at(99)), session_id=session, session_epoch=8)
    fetch(talk, "ends", both, session_id=session, session_epoch=-1)
    fetch(talk, "after the end", session_id=session, session_epoch=9)
    fetch(talk, "unknown", session_id=1_234_567, session_epoch=1)
    fetch(talk, "unknown, full", both, session_id=1_234_567, session_epoch=-1)
    fetch(talk, "no session, later epoch", both, session_id=0, session_epoch=3)


def looked_up(talk: Talk) -> None:
    """Timestamps, and words that stand for them."""
    topic = talk.new_topic("times", 2)
    talk.ask("some", produce(topic, (0, batch(3))))
    for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, START_MS, START_MS + 500, START_MS + 2000, START_MS + 2001):
        talk.ask(f"at {timestamp}", list_offsets(topic, (0, timestamp), (1, timestamp)))
    talk.ask("unknown partitions", list_offsets(topic, (9, -1), (-1, -1), (0, -1)))
    talk.ask("unknown topic", list_offsets("nowhere", (0, -1)))
    talk.ask("twice", list_offsets(topic, (0, -1), (0, -2), (1, -1)))
    talk.ask("no topics", list_offsets(topic, topics=[]))
    talk.ask("no partitions", list_offsets(topic))
    talk.ask("committed", list_offsets(topic, (0, -1), isolation_level=1))
    talk.ask("unknown isolation", list_offsets(topic, (0, -1), isolation_level=7))
    talk.ask("a tool", list_offsets(topic, (0, -1), replica_id=-2))
    for epoch in (0, 5):
        request = list_offsets(topic, (0, -1))
        request.topics[0].partitions[0].current_leader_epoch = epoch
        talk.ask(f"epoch {epoch}", request)


def epochs(talk: Talk) -> None:
    """The ends of leader epochs."""
    topic = talk.new_topic("epochs", 2)
    talk.ask("some", produce(topic, (0, batch(3))))
    for replica in (-1, -2):
        for epoch in (-1, 0, 5):
            for current in (-1, 0, 5):
                asked = [
                    OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
                    for index in (0, 1, 9)
                ]
                topics = [OffsetForLeaderTopic(topic=topic, partitions=asked)]
                step = f"{epoch}, current {current}, by {replica}"
                talk.ask(step, OffsetForLeaderEpochRequest(replica_id=replica, topics=topics))
    asked = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    unknown = [OffsetForLeaderTopic(topic="nowhere", partitions=asked)]
    talk.ask("unknown topic", OffsetForLeaderEpochRequest(topics=unknown))
    talk.ask("no topics", OffsetForLeaderEpochRequest())


def deleted(talk: Talk) -> None:
    """Records that go, and the size that stays."""
    topic = talk.new_topic("short", 2)
    talk.ask("some", produce(topic, (0, batch(2))))
    talk.ask("more", produce(topic, (0, batch(3))))

    def delete(step: str, *offsets: tuple[int, int], name: str = topic) -> None:
        partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets]
        topics = [DeleteRecordsTopic(name=name, partitions=partitions)]
        talk.ask(step, DeleteRecordsRequest(topics=topics, timeout_ms=10_000))

    delete("three", (0, 3), (1, 0))
    delete("fewer", (0, 1))
    delete("too many", (0, 6), (1, 1))
    delete("negative", (0, -2))
    delete("unknown partitions", (9, 0), (-1, 0))
    delete("unknown topic", (0, 0), name="nowhere")
    delete("no partitions")
    delete("all", (0, -1))
    talk.ask("no topics", DeleteRecordsRequest(timeout_ms=10_000))
    fetch(talk, "deleted", fetch_topic(talk, topic, at(2)))
    _ends(talk, topic)
    for name, partitions in ((topic, [0, 1]), (topic, [9]), ("nowhere", [0]), (topic, [])):
        asked = [DescribableLogDirTopic(topic=name, partitions=partitions)]
        talk.ask(f"{'nowhere' if name != topic else 'here'} {partitions}", DescribeLogDirsRequest(topics=asked))


HISTORIES = {
    produced: range(3, 14),
    produced_again: (12, 13),
    produced_by_idempotent_producers: (3, 9, 12, 13),
    produced_to_compacted_topics: (3, 8, 12, 13),
    fetched: range(4, 19),
    fetch_sessions: range(7, 19),
    looked_up: range(1, 12),
    epochs: range(2, 5),
    deleted: range(6),
}
"""Each with its eras."""
