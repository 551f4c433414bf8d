"""Histories of transactions: wrong requests, and short lives of transactional producers.

An era is a version of EndTxn, and 6 the one of TxnOffsetCommit with topic ids; the versions of the other requests are
those that a client of its time sends. From era 5 on
(KIP-890) Produce and TxnOffsetCommit add their partitions themselves, and each transaction has an epoch of its own.
"""

from __future__ import annotations

import time
from typing import Any

from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from purgatorio.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.delete_groups import DeleteGroupsRequest
from purgatorio.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from purgatorio.protocol.messages.describe_transactions import DescribeTransactionsRequest
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.list_transactions import ListTransactionsRequest
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.compat.same_answers.talk import PATIENCE_SECONDS, Answer, Talk, join_request

ERAS = range(7)
KIP_890 = 5
NOT_YET = (14, 15, 16, 51)
STRANGER = 987_654
PRODUCE_VERSIONS = (3, 7, 9, 10, 11, 12, 12)
UNKNOWN_ID = bytes(15) + b"\7"
COMMIT, ABORT = True, False


class Client:
    """A transactional producer, whose id is the history's group, and a topic of two partitions."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.id = talk.group
        self.producer_id, self.epoch, self.sequence = -1, -1, 0
        self.topic = f"{talk.group}-topic"
        self._create_topic()

    def _create_topic(self) -> None:
        new = CreatableTopic(name=self.topic, num_partitions=2, replication_factor=1)
        self.talk.ask("topic", CreateTopicsRequest(topics=[new], timeout_ms=10_000), record=False)
        self._until(lambda: not any(each.error_code for each in self._ends().topics[0].partitions))

    def _ends(self) -> Answer:
        """The ends of the partitions; errors until the broker leads them, which its metadata tells before."""
        partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self.topic, partitions=partitions)])
        return self.talk.ask("ends", request, record=False, version=7)

    @staticmethod
    def _until(reached: Any) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def init(self, step: str, **changes: Any) -> Answer:
        """InitProducerId, again while the transaction before is being ended (here it is not answered until then)."""
        fields = {"transactional_id": self.id, "transaction_timeout_ms": 60_000, **changes}
        request = InitProducerIdRequest(**fields)
        answer = self.talk.until(step, lambda: request, lambda answer: answer.error_code not in NOT_YET)
        if not answer.error_code and fields["transactional_id"] == self.id:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return answer

    def _ids(self, changes: dict[str, Any]) -> dict[str, Any]:
        ids = {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch}
        return {**ids, **changes}

    def add(self, step: str, *partitions: int, topics: list[AddPartitionsToTxnTopic] | None = None, **ids: Any) -> None:
        """AddPartitionsToTxn as clients send it."""
        if topics is None:
            topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=list(partitions))]
        fields = {f"v3_and_below_{name}": value for name, value in self._ids(ids).items()}
        request = AddPartitionsToTxnRequest(**fields, v3_and_below_topics=topics)
        self.talk.ask(step, request, version=min(self.talk.era, 3))

    def verify(self, step: str, *partitions: int, verify_only: bool = True, **ids: Any) -> None:
        """AddPartitionsToTxn as brokers send it."""
        topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=list(partitions))]
        of_one = AddPartitionsToTxnTransaction(**self._ids(ids), verify_only=verify_only, topics=topics)
        self.talk.ask(
            f"broker, {step}", AddPartitionsToTxnRequest(transactions=[of_one]), version=min(max(self.talk.era, 4), 5)
        )

    def add_offsets(self, step: str, **ids: Any) -> None:
        """AddOffsetsToTxn."""
        self.talk.ask(step, AddOffsetsToTxnRequest(**{**self._ids({"group_id": self.talk.group}), **ids}))

    def produce(self, step: str, partition: int = 0, *, records: bytes | None = None, **changes: Any) -> None:
        """Produce a batch of one record in the transaction."""
        transactional_id = changes.pop("transactional_id", self.id)
        data = [PartitionProduceData(index=partition, records=self.batch(**changes) if records is None else records)]
        topics = [TopicProduceData(name=self.topic, partition_data=data)]
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=topics)
        answer = self.talk.ask(step, request, version=PRODUCE_VERSIONS[self.talk.era])
        if not changes and not answer.responses[0].partition_responses[0].error_code:
            self.sequence += 1

    def batch(self, **changes: Any) -> bytes:
        """A batch of one record."""
        of_producer = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequence,
            "transactional": True,
            **changes,
        }
        return build_batch([Record(0, time.time_ns() // 1_000_000, None, b"value", ())], **of_producer)

    def commit_offset(self, step: str, offset: int, topic: str = "letters", **changes: Any) -> None:
        """TxnOffsetCommit for the first partition."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="in a transaction"
        )
        topic_id = self.talk.topic_ids.get(topic, UNKNOWN_ID)
        topics = [TxnOffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])]
        fields = {**self._ids({"group_id": self.talk.group, "topics": topics}), **changes}
        self.talk.ask(step, TxnOffsetCommitRequest(**fields))

    def end(self, step: str, committed: bool, **ids: Any) -> None:
        """EndTxn; then wait until the markers are written."""
        answer = self.talk.ask(step, EndTxnRequest(**self._ids(ids), committed=committed))
        if not answer.error_code and not ids and self.talk.era >= KIP_890:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        self.settle()

    def settle(self) -> None:
        """Wait until the coordinator has ended the transaction everywhere."""
        self._until(
            lambda: (
                not self.talk.ask("settled", self._describe(), record=False)
                .transaction_states[0]
                .transaction_state.startswith("Prepare")
            )
        )

    def _describe(self) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=[self.id])

    def describe(self, step: str) -> None:
        """What the coordinator, the logs and their readers know."""
        self.talk.ask(step, self._describe())
        self.list(step)
        topics = [TopicRequest(name=self.topic, partition_indexes=[0, 1])]
        self.talk.ask(step, DescribeProducersRequest(topics=topics))
        for isolation_level in (0, 1):
            partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
            latest = ListOffsetsRequest(
                isolation_level=isolation_level, topics=[ListOffsetsTopic(name=self.topic, partitions=[partition])]
            )
            self.talk.ask(f"{step}, isolation {isolation_level}", latest, version=7)
            start = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
            fetch = FetchRequest(
                isolation_level=isolation_level, topics=[FetchTopic(topic=self.topic, partitions=[start])]
            )
            self.talk.ask(f"{step}, isolation {isolation_level}", fetch, version=11)

    def list(self, step: str, **filters: Any) -> None:
        """ListTransactions: note the error, the unknown states, and this id if it is listed."""
        answer = self.talk.ask(step, ListTransactionsRequest(**filters), record=False)
        answer.transaction_states = [each for each in answer.transaction_states if each.transactional_id == self.id]
        self.talk.note(f"{step}, {list(filters)} {list(filters.values()) if 'own' not in step else ''}", answer)

    def offsets(self, step: str) -> None:
        """What is committed, for those who wait until it is stable and for others."""
        topics = [
            OffsetFetchRequestTopics(name="letters", topic_id=self.talk.topic_ids["letters"], partition_indexes=[0, 1])
        ]
        groups = [OffsetFetchRequestGroup(group_id=self.talk.group, topics=topics)]
        for require_stable in (True, False):
            request = OffsetFetchRequest(groups=groups, require_stable=require_stable)
            self.talk.ask(f"{step}, stable {require_stable}", request, version=8)

    def begin(self, step: str) -> None:
        """Write to the first partition."""
        if self.talk.era < KIP_890:
            self.add(step, 0)
        self.produce(step)

    def markers(self, step: str, committed: bool, *partitions: int, topic: str | None = None, **changes: Any) -> None:
        """WriteTxnMarkers, as an administrator sends it."""
        fields = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "coordinator_epoch": 0, **changes}
        topics = [WritableTxnMarkerTopic(name=topic or self.topic, partition_indexes=list(partitions))]
        marker = WritableTxnMarker(**fields, transaction_result=committed, topics=topics)
        self.talk.ask(step, WriteTxnMarkersRequest(markers=[marker]), version=1 if self.talk.era < KIP_890 else 2)


def wrong_inits(talk: Talk) -> None:
    """InitProducerId that is refused, and what it does to an id that exists."""
    client = Client(talk)
    client.init("no id", transactional_id=None)
    client.init("empty id", transactional_id="")
    for timeout_ms in (-1, 0, 900_001, 2**31 - 1):
        client.init(f"timeout {timeout_ms}", transaction_timeout_ms=timeout_ms)
    for timeout_ms in (1, 900_000):
        client.init(
            f"timeout {timeout_ms}", transactional_id=f"{client.id}-{timeout_ms}", transaction_timeout_ms=timeout_ms
        )
    if talk.era >= 3:
        client.init("unknown id with ids", producer_id=STRANGER, producer_epoch=3)
        client.init("only a producer id", producer_id=7)
        client.init("only an epoch", producer_epoch=7)
        client.init("no id, with ids", transactional_id=None, producer_id=STRANGER, producer_epoch=3)
    client.describe("unknown")
    client.init("first")
    client.describe("first")
    client.init("second")
    client.init("timeout 900001 again", transaction_timeout_ms=900_001)
    client.init("another timeout", transaction_timeout_ms=30_000)
    if talk.era >= 3:
        ids = {"producer_id": client.producer_id, "producer_epoch": client.epoch}
        client.init("with its own ids", **ids)
        client.init("answer lost", **ids)
        client.init("answer lost twice", **ids)
        client.init("an old epoch", **{**ids, "producer_epoch": client.epoch - 3})
        client.init("a future epoch", **{**ids, "producer_epoch": client.epoch + 1})
        client.init("another producer id", **{**ids, "producer_id": STRANGER})
    client.describe("after all")


def strangers(talk: Talk) -> None:
    """Requests of ids that the coordinator does not know, and with ids that are not the producer's."""
    client = Client(talk)
    unknown = {"transactional_id": f"{talk.group}-unknown", "producer_id": STRANGER, "producer_epoch": 0}
    empty = {**unknown, "transactional_id": ""}
    every_request(client, "unknown", **unknown)
    every_request(client, "empty", **empty)
    client.init("first")
    client.init("second")
    every_request(client, "old epoch", producer_epoch=client.epoch - 1)
    every_request(client, "future epoch", producer_epoch=client.epoch + 1)
    every_request(client, "other producer", producer_id=STRANGER)
    client.describe("after all")


def every_request(client: Client, step: str, **ids: Any) -> None:
    """All requests of a transaction, with these ids."""
    client.add(step, 0, **ids)
    client.add_offsets(step, **ids)
    client.commit_offset(step, 5, **ids)
    client.produce(step, **ids)
    client.verify(step, 0, **ids)
    client.end(f"{step}, commit", COMMIT, **ids)
    client.end(f"{step}, abort", ABORT, **ids)


def nothing_open(talk: Talk) -> None:
    """Requests of a producer that has no transaction."""
    client = Client(talk)
    client.init("first")
    client.verify("verify", 0, 1)
    if talk.era < KIP_890:
        client.produce("not added")
        client.commit_offset("not added", 5)
        client.offsets("not added")
    client.end("commit", COMMIT)
    client.end("abort", ABORT)
    client.describe("after all")


def wrong_partitions(talk: Talk) -> None:
    """Partitions that do not exist, or that the transaction does not have."""
    client = Client(talk)
    client.init("first")
    unknown = [AddPartitionsToTxnTopic(name=f"{talk.group}-unknown", partitions=[0])]
    known = [AddPartitionsToTxnTopic(name=client.topic, partitions=[0, 1])]
    client.add("unknown topic", topics=unknown)
    client.add("unknown topic and known", topics=[*unknown, *known])
    client.add("unknown partition", 0, 2)
    client.describe("none added")
    client.begin("begin")
    client.add("again", 0)
    client.verify("verify", 0, 1)
    client.verify("add for Produce", 1, verify_only=False)
    client.describe("both added")
    client.commit_offset("unknown topic", 5, topic=f"{talk.group}-unknown")
    client.end("abort", ABORT)
    client.describe("aborted")
    if talk.era < KIP_890:
        client.add("the first only", 0)
        client.produce("in the second", 1)
        client.produce("in the first")
        client.commit_offset("no group added", 5)
        client.end("commit", COMMIT)
        client.describe("committed")
    client.add("no partitions", topics=[])
    client.add_offsets("empty group", group_id="")


def wrong_batches(talk: Talk) -> None:
    """Batches that do not belong to the transaction."""
    client = Client(talk)
    client.init("first")
    client.begin("begin")
    client.produce("no transactional id", transactional_id=None)
    client.produce("plain while it is open", transactional=False)
    client.produce("sequence too high", base_sequence=client.sequence + 5)
    client.produce("duplicate", base_sequence=client.sequence - 1)
    client.produce("epoch too low", producer_epoch=client.epoch - 1)
    client.produce("epoch too high", producer_epoch=client.epoch + 1)
    marker = build_end_marker(
        EndMarker(committed=True, coordinator_epoch=0),
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        timestamp_ms=1,
    )
    client.produce("a marker", records=marker)
    client.produce("still right")
    client.describe("open")
    client.end("commit", COMMIT)
    client.describe("committed")
    client.produce("no producer id", producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False)


def one_life(talk: Talk) -> None:
    """Records and offsets are committed, aborted and committed."""
    client = Client(talk)
    client.init("first")
    for step, committed in (("one", COMMIT), ("two", ABORT), ("three", COMMIT)):
        client.begin(step)
        client.produce(f"{step} again")
        if talk.era < KIP_890:
            client.add_offsets(step)
        client.commit_offset(step, 10 + len(step))
        client.describe(step)
        client.offsets(step)
        talk.ask(f"{step}, pending offsets", DeleteGroupsRequest(groups_names=[talk.group]))
        client.end(step, committed)
        client.describe(f"{step} ended")
        client.offsets(f"{step} ended")
        ids = {"producer_id": client.producer_id, "producer_epoch": client.epoch - (talk.era >= KIP_890)}
        client.end(f"{step} again", committed, **ids)
        client.end(f"{step} otherwise", not committed, **ids)
        client.verify(f"{step} ended", 0)
    client.end("nothing to commit", COMMIT)
    client.end("nothing to abort", ABORT)
    client.describe("after all")


def members(talk: Talk) -> None:
    """Offsets in transactions of members, of former members and of strangers (KIP-447)."""
    client = Client(talk)
    client.init("first")
    client.begin("begin")
    if talk.era < KIP_890:
        client.add_offsets("begin")
    nobody = talk.given("nobody")
    client.commit_offset("no group", 1)
    if talk.era >= 3:
        client.commit_offset("no group, generation", 2, generation_id=1)
        client.commit_offset("no group, member", 3, member_id=nobody)
        client.commit_offset("no group, instance", 4, group_instance_id="one")
    joined = talk.join("member", join_request(talk.group))
    of_member = {"member_id": joined.member_id, "generation_id": joined.generation_id}
    if talk.era >= 3:
        client.commit_offset("member", 5, **of_member)
        client.commit_offset("old generation", 6, **{**of_member, "generation_id": 0})
        client.commit_offset("future generation", 7, **{**of_member, "generation_id": 9})
        client.commit_offset("stranger", 8, **{**of_member, "member_id": nobody})
        client.commit_offset("unknown instance", 9, **of_member, group_instance_id="one")
        client.commit_offset("only the member", 10, member_id=joined.member_id)
    client.commit_offset("beside a member", 11)
    client.offsets("open")
    client.end("commit", COMMIT)
    client.offsets("committed")


def fenced(talk: Talk) -> None:
    """A second producer of the id ends the first one's transaction; the first one comes back."""
    client = Client(talk)
    client.init("first")
    client.begin("first")
    first = {"producer_id": client.producer_id, "producer_epoch": client.epoch}
    client.init("second")
    client.describe("second")
    every_request(client, "zombie", **first)
    if talk.era >= 3:
        client.init("zombie", **first)
    client.begin("heir")
    every_request(client, "zombie beside", **first)
    client.describe("heir")
    client.end("heir", COMMIT)
    client.describe("after all")


def markers_of_administrators(talk: Talk) -> None:
    """WriteTxnMarkers from a client: right, late, of other epochs, and for what does not exist."""
    client = Client(talk)
    client.init("first")
    client.init("second")
    client.markers("unknown topic", ABORT, 0, topic=f"{talk.group}-unknown")
    client.markers("unknown partition", ABORT, 2)
    client.begin("open")
    client.markers("old epoch", ABORT, 0, producer_epoch=client.epoch - 1)
    client.markers("old coordinator", ABORT, 0, coordinator_epoch=-1)
    client.describe("still open")
    client.markers("nothing open there", ABORT, 1)
    client.markers("right", ABORT, 0, producer_epoch=client.epoch + (talk.era >= KIP_890))
    client.describe("ended in the log")
    client.end("commit", COMMIT)
    client.describe("committed")


def listings(talk: Talk) -> None:
    """ListTransactions with filters, about one id in two states."""
    client = Client(talk)
    client.init("first")
    for state in ("empty", "open"):
        if state == "open":
            client.begin("open")
        for states in ([], ["Empty"], ["Ongoing"], ["ongoing"], ["nonsense", "Ongoing"], [""]):
            client.list(state, state_filters=states)
        client.list(f"{state}, own producer", producer_id_filters=[client.producer_id])
        client.list(state, producer_id_filters=[STRANGER])
        for duration_ms in (-5, 0, 3_600_000):
            client.list(state, duration_filter_ms=duration_ms)
        for pattern in ("", client.id, "transaction.*", "^nothing$", "[a-"):
            client.list(state, transactional_id_pattern=pattern)
    talk.ask("unknown", DescribeTransactionsRequest(transactional_ids=[f"{talk.group}-unknown", ""]))
    talk.ask("none", DescribeTransactionsRequest(transactional_ids=[]))
    client.end("abort", ABORT)


HISTORIES = [
    wrong_inits,
    strangers,
    nothing_open,
    wrong_partitions,
    wrong_batches,
    one_life,
    members,
    fenced,
    markers_of_administrators,
    listings,
]
