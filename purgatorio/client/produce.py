"""Produce: batches of records, and an attempt to write one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from purgatorio.client.client import FAILURES, KafkaClient, Leader, Partition, by_topic
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

ALL_REPLICAS: Final = -1
TIMEOUT_MS: Final = 30_000
NO_PRODUCER: Final = (-1, -1)
"""The id and epoch of a producer that is not idempotent."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of a batch that was sent once.

    Attributes:
        code: NETWORK_EXCEPTION if there was no answer.
        reason: the code's name, or why there was no answer.
        leader: to whom it was sent; None: no leader was found, so it was not sent.
        offset: the offset of the first record; negative: the answer did not give it.
    """

    code: ErrorCode
    reason: str
    leader: Leader | None
    offset: int = -1


def batch_of(
    values: Iterable[bytes | None],
    wall_ms: int,
    *,
    producer: tuple[int, int] = NO_PRODUCER,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Build a batch of records without keys; `producer` is the producer's id and epoch."""
    return build_batch(
        [Record(nth, wall_ms, None, value) for nth, value in enumerate(values)],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence if producer != NO_PRODUCER else -1,
        transactional=transactional,
    )


def produce_request(
    tp: Partition,
    batch: bytes,
    *,
    acks: int = ALL_REPLICAS,
    timeout_ms: int = TIMEOUT_MS,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Build the request that writes a batch; the leader waits `timeout_ms` for its followers."""
    return produce_request_of({tp: batch}, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id)


def produce_request_of(
    batches: Mapping[Partition, bytes],
    *,
    acks: int = ALL_REPLICAS,
    timeout_ms: int = TIMEOUT_MS,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Build the request that writes a batch to each of some partitions."""
    data = [
        TopicProduceData(
            name=topic,
            partition_data=[PartitionProduceData(index=index, records=batch) for index, batch in of_topic.items()],
        )
        for topic, of_topic in by_topic(batches).items()
    ]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=data)


async def produce(
    client: KafkaClient[Any],
    tp: Partition,
    request: Callable[[], ProduceRequest],
    *,
    timeout_ms: int | None = None,
) -> Attempt:
    """Send a request to the partition's leader, once; it is built when the leader is known.

    A leader that takes it is asked again the next time; else the leader is looked up.
    """
    leader: Leader | None = None
    try:
        leader = client.leaders.pop(tp, None) or await client.leader(tp)
        answer = await client.ask(leader.broker_id, request(), timeout_ms=timeout_ms)
    except FAILURES as error:
        return Attempt(ErrorCode.NETWORK_EXCEPTION, str(error) or repr(error), leader)
    (result,) = answer.responses[0].partition_responses
    code = ErrorCode(result.error_code)
    if code is not ErrorCode.NONE:
        return Attempt(code, code.name, leader)
    client.leaders[tp] = leader
    return Attempt(code, code.name, leader, result.base_offset)
