"""Histories of share fetches (KIP-932): sessions, what is acquired, and what may be acknowledged."""

from __future__ import annotations

import time
from typing import Any

from purgatorio.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from purgatorio.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from purgatorio.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.compat.same_answers.share_group_histories import ME, OTHER, beat, joined, new_topic, offsets
from tests.compat.same_answers.talk import Answer, Talk

ERAS = (1, 2)
"""The versions of ShareFetch and ShareAcknowledge."""
KIP_1222 = 2
UNKNOWN_ID = bytes(15) + b"\7"
WAIT_MS, LONG_WAIT_MS = 100, 10_000
GROUP_RESOURCE = 32
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Batch = tuple[int, int, tuple[int, ...]]
"""First and last offset, and the types of acknowledgement."""


def configured(talk: Talk, **configs: str) -> None:
    """Set configs of the group, and wait until they are in force."""
    wanted = {name.replace("_", "."): value for name, value in configs.items()}
    given = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in wanted.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=talk.group, configs=given)
    talk.ask("configs", IncrementalAlterConfigsRequest(resources=[resource]), record=False, version=1)
    asked = DescribeConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=talk.group, configuration_keys=list(wanted)
    )
    talk.until(
        f"configured {' '.join(wanted)} {' '.join(wanted.values())}",
        lambda: DescribeConfigsRequest(resources=[asked]),
        lambda answer: {each.name: each.value for each in answer.results[0].configs} == wanted,
    )


class Fetcher:
    """A member with a share session, and a topic of its own with one partition.

    Attributes:
        epoch: what the session's next request has.
    """

    def __init__(self, talk: Talk, member_id: str = ME, topic: str | None = None) -> None:
        self.talk = talk
        self.member_id = talk.given(member_id)
        if topic is None:
            topic = new_topic(talk, "records")
            configured(talk, share_auto_offset_reset="earliest")
        self.topic = topic
        self.epoch = 0
        joined(talk, f"{member_id} joins", count=1, member_id=member_id, subscribed_topic_names=[topic])

    @property
    def topic_id(self) -> bytes:
        """The id of the topic on this side."""
        return self.talk.topic_ids[self.topic]

    def produce(self, *counts: int) -> None:
        """Produce batches with so many records each."""
        for count in counts:
            now_ms = time.time_ns() // 1_000_000
            batch = build_batch([Record(delta, now_ms, None, b"value", ()) for delta in range(count)])
            data = [PartitionProduceData(index=0, records=batch)]
            request = ProduceRequest(
                acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=self.topic, partition_data=data)]
            )
            answer = self.talk.ask("produce", request, record=False, version=9)
            assert not answer.responses[0].partition_responses[0].error_code

    def fetch(self, step: str, *acknowledgements: Batch, topics: Any = None, **changes: Any) -> Answer:
        """Fetch in the session, waiting for records; `epoch` changes the request's epoch alone."""
        epoch = changes.pop("epoch", self.epoch)
        if topics is None:
            topics = [self.fetch_topic(*acknowledgements)] if self.epoch == 0 or acknowledgements else []
        request = ShareFetchRequest(
            **{
                "group_id": self.talk.group,
                "member_id": self.member_id,
                "share_session_epoch": epoch,
                "max_wait_ms": LONG_WAIT_MS,
                "min_bytes": 1,
                "max_bytes": 1_000_000,
                "max_records": 500,
                "batch_size": 500,
                "topics": topics,
                **changes,
            }
        )
        answer = self.talk.ask(f"{self.member_id}, {step}", request)
        self._count(answer, epoch)
        return answer

    def empty(self, step: str, *acknowledgements: Batch, **changes: Any) -> Answer:
        """Fetch where there is nothing to acquire."""
        return self.fetch(step, *acknowledgements, max_wait_ms=WAIT_MS, **changes)

    def acknowledge(self, step: str, *acknowledgements: Batch, topics: Any = None, **changes: Any) -> Answer:
        """Acknowledge without a fetch."""
        epoch = changes.pop("epoch", self.epoch)
        if topics is None:
            partition = AcknowledgePartition(acknowledgement_batches=batches(acknowledgements))
            topics = [AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])]
        request = ShareAcknowledgeRequest(
            **{
                "group_id": self.talk.group,
                "member_id": self.member_id,
                "share_session_epoch": epoch,
                "topics": topics,
                **changes,
            }
        )
        answer = self.talk.ask(f"{self.member_id}, {step}", request)
        self._count(answer, epoch)
        return answer

    def fetch_topic(self, *acknowledgements: Batch, partition: int = 0, topic_id: bytes | None = None) -> FetchTopic:
        """Name a partition of a topic in a fetch."""
        named = FetchPartition(partition_index=partition, acknowledgement_batches=batches(acknowledgements))
        return FetchTopic(topic_id=self.topic_id if topic_id is None else topic_id, partitions=[named])

    @staticmethod
    def all_of(answer: Answer, kind: int) -> list[Batch]:
        """Acknowledgements of everything that an answer has acquired."""
        partitions = [each for topic in answer.responses for each in topic.partitions]
        return [(each.first_offset, each.last_offset, (kind,)) for of in partitions for each in of.acquired_records]

    def start(self, step: str) -> None:
        """Note where the group is on the partition."""
        self.talk.ask(f"{self.member_id}, {step}", offsets(self.talk, self.topic, 0), version=1)

    def _count(self, answer: Answer, epoch: int) -> None:
        if not answer.error_code:
            self.epoch = 0 if epoch == -1 else epoch + 1


def batches(acknowledgements: tuple[Batch, ...]) -> list[AcknowledgementBatch]:
    """The batches of a request."""
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in acknowledgements
    ]


def sessions(talk: Talk) -> None:
    """Sessions are opened, continued and closed with wrong epochs, too."""
    one = Fetcher(talk)
    one.produce(2)
    for epoch in (1, -1, -2, 7):
        one.empty(f"no session, epoch {epoch}", epoch=epoch)
        one.acknowledge(f"no session, epoch {epoch}", (0, 1, (ACCEPT,)), epoch=epoch)
    one.acknowledge("no session, epoch 0", (0, 1, (ACCEPT,)), epoch=0)
    one.epoch = 0
    one.empty("opens with acknowledgements", (0, 1, (ACCEPT,)))
    one.fetch("opens")
    for epoch in (2, 7, -2):
        one.empty(f"open, epoch {epoch}", epoch=epoch)
        one.acknowledge(f"open, epoch {epoch}", (0, 1, (ACCEPT,)), epoch=epoch)
    one.acknowledge("open, epoch 0", (0, 1, (ACCEPT,)), epoch=0)
    one.epoch = 1
    one.acknowledge("right", (0, 0, (ACCEPT,)))
    one.empty("again", epoch=1)
    one.empty("right")
    one.acknowledge("closes", (1, 1, (RELEASE,)), epoch=-1)
    one.empty("after it", epoch=3)
    one.fetch("opens again")
    one.fetch("closes", (1, 1, (ACCEPT,)), epoch=-1)
    one.start("at the end")
    one.empty("opens for the last time")
    one.epoch = 0
    one.empty("replaces itself")
    one.empty("is right")


def wrong_fetches(talk: Talk) -> None:
    """Requests that are refused, and partitions that do not exist."""
    one = Fetcher(talk)
    one.produce(2)
    one.empty("no group", group_id=None)
    one.empty("empty group", group_id="")
    one.empty("no member", member_id=None)
    one.empty("empty member", member_id="")
    one.empty("long member", member_id=talk.given("x" * 37))
    one.epoch = 0
    one.empty("no topics", topics=[])
    one.epoch = 0
    one.empty("unknown topic", topics=[one.fetch_topic(topic_id=UNKNOWN_ID)])
    one.epoch = 0
    one.empty("zero topic", topics=[one.fetch_topic(topic_id=bytes(16))])
    one.epoch = 0
    one.empty("unknown partition", topics=[one.fetch_topic(partition=5)])
    one.epoch = 0
    one.empty("negative partition", topics=[one.fetch_topic(partition=-1)])
    one.epoch = 0
    one.fetch("known and unknown", topics=[one.fetch_topic(), one.fetch_topic(topic_id=UNKNOWN_ID)])
    unknown = AcknowledgePartition(partition_index=5, acknowledgement_batches=batches(((0, 0, (ACCEPT,)),)))
    for step, topic_id in (("unknown partition", one.topic_id), ("unknown topic", UNKNOWN_ID)):
        one.acknowledge(step, topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[unknown])])
    one.acknowledge("no topics", topics=[])
    one.acknowledge("no partitions", topics=[AcknowledgeTopic(topic_id=one.topic_id, partitions=[])])
    one.acknowledge("no group", (0, 0, (ACCEPT,)), group_id=None)
    one.acknowledge("empty group", (0, 0, (ACCEPT,)), group_id="")
    one.acknowledge("no member", (0, 0, (ACCEPT,)), member_id=None)
    one.acknowledge("other group", (0, 0, (ACCEPT,)), group_id=f"{talk.group}-other")
    forgotten = [ForgottenTopic(topic_id=one.topic_id, partitions=[0])]
    one.empty("forgets", (0, 1, (RELEASE,)), forgotten_topics_data=forgotten)
    one.empty("forgotten")
    one.empty("forgets an unknown", forgotten_topics_data=[ForgottenTopic(topic_id=UNKNOWN_ID, partitions=[0])])
    one.fetch("adds it again", topics=[one.fetch_topic()])


def wrong_limits(talk: Talk) -> None:
    """Limits that are 0 or negative."""
    one = Fetcher(talk)
    one.produce(2)
    one.empty("opens with no records", max_records=0)
    for step, changes in {
        "no records": {"max_records": 0},
        "negative records": {"max_records": -1},
        "no batch size": {"batch_size": 0},
        "no bytes": {"max_bytes": 0},
        "negative bytes": {"max_bytes": -1},
        "negative wait": {"max_wait_ms": -1},
        "too much": {"min_bytes": 100_000},
        "negative minimum": {"min_bytes": -1},
    }.items():
        one.fetch(step, **{"max_wait_ms": WAIT_MS, **changes})
        one.empty(f"{step}, gives back", (0, 1, (RELEASE,)), max_records=0)
    if talk.era >= KIP_1222:
        one.empty("unknown mode", share_acquire_mode=2)
        one.empty("negative mode", share_acquire_mode=-1)


def acknowledgements(talk: Talk) -> None:
    """Acknowledgements of a wrong form, or of records that the member has not."""
    one = Fetcher(talk)
    one.produce(10, 5)
    one.fetch("acquires")
    for step, wrong in {
        "first above last": ((1, 0, (ACCEPT,)),),
        "negative": ((-1, 0, (ACCEPT,)),),
        "no types": ((0, 1, ()),),
        "too few types": ((0, 2, (ACCEPT, ACCEPT)),),
        "too many types": ((0, 1, (ACCEPT, ACCEPT, ACCEPT)),),
        "unknown type": ((0, 1, (5,)),),
        "negative type": ((0, 1, (-1,)),),
        "renews": ((0, 1, (RENEW,)),),
        "not in order": ((2, 3, (ACCEPT,)), (0, 1, (ACCEPT,))),
        "overlap": ((0, 2, (ACCEPT,)), (2, 3, (ACCEPT,))),
        "past the end": ((14, 15, (ACCEPT,)),),
        "far past the end": ((100, 100, (ACCEPT,)),),
        "none": (),
    }.items():
        one.acknowledge(step, *wrong)
        one.empty(step, *wrong)
    other = Fetcher(talk, OTHER, one.topic)
    other.empty("opens")
    other.acknowledge("not its own", (0, 1, (ACCEPT,)))
    one.acknowledge("half is wrong", (0, 1, (ACCEPT,)), (2, 20, (ACCEPT,)))
    one.acknowledge("right", (2, 3, (ACCEPT,)))
    one.acknowledge("again", (2, 3, (ACCEPT,)))
    one.acknowledge("again and more", (2, 5, (ACCEPT,)))
    one.acknowledge("each type", (4, 7, (ACCEPT, RELEASE, REJECT, GAP)))
    one.start("in between")
    one.acknowledge("to the start", (0, 1, (ACCEPT,)))
    one.acknowledge("below the start", (0, 1, (ACCEPT,)))
    one.acknowledge("below and above the start", (1, 5, (ACCEPT,)))
    one.acknowledge("released", (5, 5, (ACCEPT,)))
    other.fetch("released")
    one.acknowledge("another's", (5, 5, (ACCEPT,)))
    other.acknowledge("its own", (5, 5, (ACCEPT,)))
    one.start("before all")
    one.acknowledge("all", (8, 14, (ACCEPT,)))
    one.acknowledge("nothing in flight", (8, 14, (ACCEPT,)))
    one.acknowledge("nothing in flight, past the end", (15, 15, (ACCEPT,)))
    one.start("after all")


def acquire_modes(talk: Talk) -> None:
    """How MaxRecords, BatchSize and record batches go together in each mode (KIP-1206)."""
    one = Fetcher(talk)
    one.produce(5, 5, 5)
    modes = (0, 1) if talk.era >= KIP_1222 else (0,)
    for mode in modes:
        for max_records, batch_size in ((1, 1), (5, 1), (6, 3), (7, 100), (500, 4), (500, 5), (500, 7)):
            step = f"mode {mode}, {max_records}, {batch_size}"
            answer = one.fetch(step, share_acquire_mode=mode, max_records=max_records, batch_size=batch_size)
            one.acknowledge(step, *(one.all_of(answer, ACCEPT)))
            one.start(step)
            one.produce(*([5] * 3))


def deliveries(talk: Talk) -> None:
    """Records are released until they have been delivered too often, the later the fewer at a time."""
    one = Fetcher(talk)
    one.produce(8, 8)
    for number in range(1, 40):
        answer = one.fetch(f"{number}", max_wait_ms=500)
        released = one.all_of(answer, RELEASE)
        if not released:
            break
        one.acknowledge(f"{number}", *released)
        one.start(f"{number}")


def delivery_limit(talk: Talk) -> None:
    """A group's own limit of deliveries."""
    one = Fetcher(talk)
    configured(talk, share_delivery_count_limit="2")
    one.produce(3)
    for step in ("first", "second"):
        one.fetch(step)
        one.acknowledge(step, (0, 2, (RELEASE,)))
    one.empty("third")
    one.start("given up")


def lock_limit(talk: Talk) -> None:
    """A group's own limit of records that are acquired at a time, against record batches of several sizes."""
    one = Fetcher(talk)
    configured(talk, share_partition_max_record_locks="100")
    one.produce(200, 60)
    one.fetch("one batch, beyond the limit")
    one.empty("at the limit")
    one.acknowledge("some", (0, 49, (ACCEPT,)))
    one.empty("room by acknowledgements")
    one.acknowledge("release", (50, 59, (RELEASE,)))
    one.fetch("released")
    one.start("in between")
    if talk.era >= KIP_1222:
        one.empty("record limit", share_acquire_mode=1)


def small_batches_and_the_lock_limit(talk: Talk) -> None:
    """The limit lies within a record batch."""
    one = Fetcher(talk)
    configured(talk, share_partition_max_record_locks="100")
    one.produce(60, 60, 60)
    one.fetch("two batches")
    one.empty("at the limit")
    one.acknowledge("some", (0, 59, (ACCEPT,)))
    one.fetch("the third")


def renewals(talk: Talk) -> None:
    """Locks are renewed (KIP-1222) with right and wrong requests."""
    if talk.era < KIP_1222:
        return
    one = Fetcher(talk)
    one.produce(6)
    one.fetch("acquires")
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0}
    one.acknowledge("without the flag", (0, 0, (RENEW,)))
    one.acknowledge("renews", (0, 1, (RENEW,)), is_renew_ack=True)
    one.acknowledge("renews again, and accepts", (0, 2, (RENEW, RENEW, ACCEPT)), is_renew_ack=True)
    one.acknowledge("renews what is done", (2, 2, (RENEW,)), is_renew_ack=True)
    one.fetch("renews and wants", (0, 0, (RENEW,)), is_renew_ack=True)
    for name in nothing:
        one.fetch(f"renews, {name}", (0, 0, (RENEW,)), is_renew_ack=True, **{**nothing, name: 1})
    one.fetch("renews", (0, 0, (RENEW,)), is_renew_ack=True, **nothing)
    one.fetch("flag without renewals", (1, 1, (ACCEPT,)), is_renew_ack=True, **nothing)
    one.empty("without the flag", (0, 0, (RENEW,)))
    one.acknowledge("past the end", (6, 6, (RENEW,)), is_renew_ack=True)
    configured(talk, share_renew_acknowledge_enable="false")
    one.acknowledge("not allowed", (3, 3, (RENEW,)), is_renew_ack=True)
    one.acknowledge("accepts where renewals are not allowed", (3, 3, (ACCEPT,)), is_renew_ack=True)
    one.acknowledge("half is not allowed", (4, 5, (ACCEPT, RENEW)), is_renew_ack=True)
    one.acknowledge("ends", (4, 5, (ACCEPT,)), epoch=-1)
    one.start("after all")


def starts(talk: Talk) -> None:
    """Where a group begins, and what becomes of records that are deleted."""
    one = Fetcher(talk)
    one.produce(4, 4)
    configured(talk, share_auto_offset_reset="latest")
    one.empty("latest")
    one.start("latest")
    one.produce(3)
    one.fetch("new")
    deleted = DeleteRecordsPartition(partition_index=0, offset=10)
    topics = [DeleteRecordsTopic(name=one.topic, partitions=[deleted])]
    talk.ask("delete", DeleteRecordsRequest(topics=topics, timeout_ms=10_000), record=False)
    one.empty("deleted")
    one.acknowledge("deleted", (8, 9, (ACCEPT,)))
    one.acknowledge("deleted and kept", (9, 10, (ACCEPT,)))
    one.start("after all")


def first_start(talk: Talk) -> None:
    """A group begins with the latest record by default: once, or whenever its leader finds no start."""
    one = Fetcher(talk, topic=new_topic(talk, "latest"))
    one.produce(2)
    one.empty("begins with the latest")
    one.start("begins with the latest")
    one.acknowledge("leaves", epoch=-1, topics=[])
    one.epoch = 0
    one.produce(3)
    one.empty("comes back to new records")
    one.start("comes back to new records")


def two_sessions(talk: Talk) -> None:
    """Two members share a partition; what one leaves the other gets."""
    one = Fetcher(talk)
    one.produce(2, 2)
    other = Fetcher(talk, OTHER, one.topic)
    one.fetch("takes one batch", max_records=1)
    other.fetch("takes the rest")
    other.empty("nothing left")
    one.acknowledge("leaves", epoch=-1, topics=[])
    other.fetch("what was left")
    other.acknowledge("all", (0, 3, (ACCEPT,)))
    other.start("after all")
    talk.ask("leaves", beat(talk, -1))
    one.epoch = 0
    one.produce(1)
    one.fetch("as no member")


HISTORIES = [
    sessions,
    wrong_fetches,
    wrong_limits,
    acknowledgements,
    acquire_modes,
    deliveries,
    delivery_limit,
    lock_limit,
    small_batches_and_the_lock_limit,
    renewals,
    first_start,
    starts,
    two_sessions,
]
