"""A batch is sent once; the outcome says whether it was sent at all, and to whom."""

from __future__ import annotations

from purgatorio.client.produce import Attempt, batch_of, produce, produce_request
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from purgatorio.protocol.records import iter_records, read_header
from tests.client.brokers import TP, Brokers, Patient


def answer(code: ErrorCode, offset: int = -1) -> ProduceResponse:
    each = PartitionProduceResponse(error_code=code, base_offset=offset)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[each])])


async def attempt(client: Patient) -> Attempt:
    return await produce(client, TP, lambda: produce_request(TP, batch_of([b"1"], 0)))


async def test_a_leader_that_takes_a_batch_is_asked_again_and_looked_up_after_an_error() -> None:
    brokers = Brokers()
    client = Patient(brokers)
    brokers.set(ProduceRequest, answer(ErrorCode.NONE, 40), answer(ErrorCode.NOT_LEADER_OR_FOLLOWER), OSError("lost"))
    done = [await attempt(client) for _ in range(3)]
    assert [(each.code.name, each.reason, each.offset) for each in done] == [
        ("NONE", "NONE", 40),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_OR_FOLLOWER", -1),
        ("NETWORK_EXCEPTION", "lost", -1),
    ]
    assert all(each.leader == (2, 7) for each in done)
    names = [name for _, name in brokers.asked]
    assert names == ["MetadataRequest", *["ProduceRequest"] * 2, "MetadataRequest", "ProduceRequest"]


async def test_without_a_leader_nothing_is_sent() -> None:
    brokers = Brokers()
    brokers.leader = -1
    done = await attempt(Patient(brokers))
    assert (done.code, done.leader, done.reason) == (ErrorCode.NETWORK_EXCEPTION, None, "orders-0 has no leader")
    assert brokers.asked == [("one", "MetadataRequest")]


def test_a_batch_has_the_producer_and_its_sequence_only_if_there_is_one() -> None:
    header = read_header(batch_of([b"1", None], 5, producer=(9, 2), sequence=3, transactional=True))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (9, 2, 3, True)
    batch = batch_of([b"1", None], 5, sequence=3)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert [(each.timestamp_ms, each.value) for each in iter_records(batch)] == [(5, b"1"), (5, None)]
