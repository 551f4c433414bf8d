"""Hostile shapes of the APIs of share groups: requests that name much, or that leave much at the broker.

The requests are made from the declarations of messages. A shape is told to each API of share groups whose request has
the fields for it, so that a new API gets its shapes, too; a field that is not known here fails (`_VALUES`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.api.routes import APIS as REGISTERED
from purgatorio.protocol.api import APIS, encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import ArrayType, StructType, fields_of
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.messages.share_acknowledge import AcknowledgementBatch
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.protocol.share_state import StateBatch
from tests.broker.server.holding import Target

SHARE_APIS: Final = tuple(key for key in sorted(APIS) if "SHARE" in ApiKey(key).name)

NAMED: Final = 1_900
"""As many partitions, topics or names as one request has."""
SESSIONS: Final = 400
FILLED: Final = 40
"""Partitions with records; one batch in each, which a fetch acquires whole."""
RECORDS: Final = 2_400
RUNS: Final = 1_200
"""Records that are decided one by one, every other one."""
WAITING: Final = 3_000
MAX_SESSIONS: Final = 500
STATE_BATCHES: Final = 9_000
GROUP: Final = "jobs"
ACCEPT, RELEASE, RENEW = 1, 2, 4


class Named(NamedTuple):
    """A topic that a request names, with partitions."""

    name: str
    topic_id: bytes
    partitions: Sequence[int]


class Asked(NamedTuple):
    """What a request says, by the names of fields."""

    topics: Sequence[Named] = ()
    decisions: Sequence[tuple[int, int]] = ()
    state_batches: int = 0
    member_id: str = "one"
    epoch: int = 0
    max_wait_ms: int = 0
    renews: bool = False
    names: int = 1
    start_offset: int = 0


def _decided(asked: Asked) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
        for offset, kind in asked.decisions
    ]


def _stored(asked: Asked) -> list[StateBatch]:
    return [
        StateBatch(first_offset=2 * nth, last_offset=2 * nth, delivery_state=2, delivery_count=1)
        for nth in range(asked.state_batches)
    ]


_VALUES: Final[dict[str, Callable[[Asked], Any]]] = {
    "group_id": lambda asked: GROUP,
    "group_ids": lambda asked: [f"group{nth}" for nth in range(asked.names)],
    "subscribed_topic_names": lambda asked: [f"topic{nth}" for nth in range(asked.names)],
    "rack_id": lambda asked: None,
    "member_id": lambda asked: asked.member_id,
    "member_epoch": lambda asked: asked.epoch,
    "include_authorized_operations": lambda asked: True,
    "share_session_epoch": lambda asked: asked.epoch,
    "max_wait_ms": lambda asked: asked.max_wait_ms,
    "min_bytes": lambda asked: 0 if asked.renews else 1,
    "max_bytes": lambda asked: 0 if asked.renews else 50_000_000,
    "max_records": lambda asked: 0 if asked.renews else FILLED * RECORDS,
    "batch_size": lambda asked: RECORDS,
    "share_acquire_mode": lambda asked: 0,
    "is_renew_ack": lambda asked: asked.renews,
    "acknowledgement_batches": _decided,
    "state_batches": _stored,
    "forgotten_topics_data": lambda asked: [],
    "state_epoch": lambda asked: 1_000,
    "leader_epoch": lambda asked: -1,
    "start_offset": lambda asked: asked.start_offset,
    "delivery_complete_count": lambda asked: -1,
}


def field_names(key: int) -> frozenset[str]:
    """Return the names of all fields of an API's request."""

    def names(cls: Any) -> Iterator[str]:
        for field in fields_of(cls):
            yield field.name
            element = field.wire.type.element if isinstance(field.wire.type, ArrayType) else field.wire.type
            if isinstance(element, StructType):
                yield from names(element.cls)

    return frozenset(names(APIS[ApiKey(key)].request))


def request_of(key: int, asked: Asked) -> bytes:
    """Return the frame of a request of an API, in the highest version that is answered."""
    api_key = ApiKey(key)
    version = next(each.answered_versions[-1] for each in REGISTERED if each.key == key)
    message = _made(APIS[api_key].request, version, asked, None, None)
    return b"".join(encode_request(api_key, version, 7, "x", message))[4:]


def _made(cls: Any, version: int, asked: Asked, topic: Named | None, partition: int | None) -> Any:
    values: dict[str, Any] = {}
    for field in fields_of(cls):
        if not field.is_in(version):
            continue
        element = field.wire.type.element if isinstance(field.wire.type, ArrayType) else None
        if field.name in _VALUES:
            values[field.name] = _VALUES[field.name](asked)
        elif field.name in ("topic_id", "topic_name"):
            assert topic is not None
            values[field.name] = topic.topic_id if field.name == "topic_id" else topic.name
        elif field.name in ("partition", "partition_index"):
            values[field.name] = partition
        elif field.name == "partitions" and topic is not None:
            values[field.name] = (
                [_made(element.cls, version, asked, topic, number) for number in topic.partitions]
                if isinstance(element, StructType)
                else list(topic.partitions)
            )
        elif field.name == "topics" and isinstance(element, StructType):
            values[field.name] = [_made(element.cls, version, asked, each, None) for each in asked.topics]
        elif field.name == "groups" and isinstance(element, StructType):
            values[field.name] = [_made(element.cls, version, asked, None, None)]
        else:
            raise KeyError(f"{cls.__name__} has a field {field.name}: say in share_shapes.py what it is in a shape")
    return cls(**values)


class ShareWorld:
    """A broker with a topic of many partitions, of which some have records, and a group with the states of all."""

    def __init__(self, cluster: Cluster, target: Target) -> None:
        self.target = target
        self.broker = cluster.brokers[0]
        self.wide = Named("wide", b"", range(NAMED))
        self._members = 0

    async def fill(self) -> None:
        """Make all that."""
        target = self.target
        await target.create("wide", NAMED, {})
        self.wide = Named("wide", target.topic_id("wide"), range(NAMED))
        for key_type, name in ((0, GROUP), (2, f"x:{'A' * 22}:0")):
            find = FindCoordinatorRequest(key=name, key_type=key_type, coordinator_keys=[name])
            await target.answer(b"".join(encode_request(ApiKey.FIND_COORDINATOR, 6, 7, "x", find))[4:])
        coordinators = (self.broker.groups, self.broker.coordinators.shares)
        while not all(  # noqa: ASYNC110 - only turns of the loop are waited for
            len(list(each.coordinator.shards)) and all(shard.is_active for shard in each.coordinator.shards)
            for each in coordinators
        ):
            await asyncio.sleep(0)
        await target.answer(request_of(ApiKey.ALTER_SHARE_GROUP_OFFSETS, Asked([self.wide])))
        await target.answer(request_of(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, Asked([self.wide])))
        records = build_batch([Record(nth, 1_700_000_000_000, None, b"") for nth in range(RECORDS)])
        data = [PartitionProduceData(index=nth, records=records) for nth in range(FILLED)]
        produce = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="wide", partition_data=data)])
        await target.answer(b"".join(encode_request(ApiKey.PRODUCE, 9, 7, "x", produce))[4:])

    def member(self) -> str:
        """Return the id of another member."""
        self._members += 1
        return f"member {self._members}"

    async def holding_records(self, connection: Any) -> tuple[str, int]:
        """Return a member that has acquired the records of some partitions, and the epoch of its next request."""
        member_id, epoch = self.member(), 0
        while sum(len(share.locks(member_id)) for share in self.broker.led_shares.partitions) < FILLED // 2:
            topics = [self.wide._replace(partitions=range(FILLED))] if epoch == 0 else []
            asked = Asked(topics, member_id=member_id, epoch=epoch, max_wait_ms=1_000)
            await self.target.answer(request_of(ApiKey.SHARE_FETCH, asked), connection)
            epoch += 1
        return member_id, epoch


class Shape(NamedTuple):
    """A hostile shape.

    Attributes:
        needs: the fields that a request has for it; it is told to APIs that have all of them.
        act: does it once; returns the longest hold of the event loop.
    """

    needs: frozenset[str]
    act: Callable[[ShareWorld, int], Awaitable[float]]


async def _wide(world: ShareWorld, key: int) -> float:
    """All partitions of a topic, whose states are loaded."""
    target, member_id = world.target, world.member()
    connection, asked = target.connect(), Asked([world.wide], member_id=member_id, max_wait_ms=50)
    held_ms = 0.0
    if "share_session_epoch" in field_names(key):
        held_ms, _ = await target.answer(request_of(ApiKey.SHARE_FETCH, asked), connection)
        asked = asked._replace(epoch=1, decisions=[(0, ACCEPT)])
    asked = asked._replace(start_offset=world._members)
    held_ms = max(held_ms, (await target.answer(request_of(key, asked), connection))[0])
    return max(held_ms, await target.lose(connection))


async def _unknown_ids(world: ShareWorld, key: int) -> float:
    """Topic ids that the broker does not know."""
    target, member_id = world.target, world.member()
    topics = [Named(f"topic{nth}", nth.to_bytes(16), [0]) for nth in range(1, NAMED + 1)]
    connection, asked = target.connect(), Asked(topics, member_id=member_id, max_wait_ms=50)
    held_ms = 0.0
    if "share_session_epoch" in field_names(key):
        held_ms, _ = await target.answer(request_of(ApiKey.SHARE_FETCH, asked), connection)
        asked = asked._replace(epoch=1, decisions=[(0, ACCEPT)])
    held_ms = max(held_ms, (await target.answer(request_of(key, asked), connection))[0])
    return max(held_ms, await target.lose(connection))


async def many_sessions(world: ShareWorld, key: int) -> float:
    """Hundreds of sessions of unknown topic ids on one connection, which is then closed."""
    target, connection, held_ms = world.target, world.target.connect(), 0.0
    for nth in range(SESSIONS):
        topics = [Named("", (nth * NAMED + each).to_bytes(16), [0]) for each in range(1, NAMED + 1)]
        asked = Asked(topics, member_id=world.member())
        held_ms = max(held_ms, (await target.answer(request_of(key, asked), connection))[0])
    return max(held_ms, await target.lose(connection))


async def _runs(world: ShareWorld, key: int) -> float:
    """Every other record of batches that were acquired whole is accepted, the others are released; the member goes."""
    target, connection = world.target, world.target.connect()
    member_id, epoch = await world.holding_records(connection)
    held_ms = 0.0
    for kind, first in ((RELEASE, 0), (RELEASE, 1)):
        decisions = [(offset, kind) for offset in range(first, 2 * RUNS, 2)]
        topics = [world.wide._replace(partitions=range(_partitions(key)))]
        asked = Asked(topics, decisions, member_id=member_id, epoch=epoch)
        held_ms = max(held_ms, (await target.answer(request_of(key, asked), connection))[0])
        epoch += 1
    return max(held_ms, await target.lose(connection))


async def _renewals(world: ShareWorld, key: int) -> float:
    """Every other record is renewed, again and again, then the connection is closed."""
    target, connection = world.target, world.target.connect()
    member_id, epoch = await world.holding_records(connection)
    held_ms = 0.0
    for nth in range(20):
        decisions = [(offset, RENEW) for offset in range(nth, 2 * RUNS, 2)]
        topics = [world.wide._replace(partitions=range(nth, min(FILLED, nth + _partitions(key))))]
        asked = Asked(topics, decisions, member_id=member_id, epoch=epoch, renews=True)
        held_ms = max(held_ms, (await target.answer(request_of(key, asked), connection))[0])
        epoch += 1
    return max(held_ms, await target.lose(connection))


def _partitions(key: int) -> int:
    """Return of how many partitions a request may decide about so many runs."""
    return max(1, min(FILLED // 2, APIS[ApiKey(key)].max_elements // (2 * RUNS + 2)))


async def _waits(world: ShareWorld, key: int) -> float:
    """Thousands of requests that wait, more than there may be sessions."""
    target = world.target
    connections = [target.connect() for _ in range(10)]
    for nth in range(WAITING):
        asked = Asked([], member_id=world.member(), max_wait_ms=300)
        target.send_on(request_of(key, asked), connections[nth % 10])
        if nth % 50 == 0:
            await asyncio.sleep(0)
    held_ms = await target.settle(0.5)
    for connection in connections:
        held_ms = max(held_ms, await target.lose(connection))
    return held_ms


async def _state_batches(world: ShareWorld, key: int) -> float:
    """As many batches of state as one state has."""
    topics = [world.wide._replace(partitions=[NAMED - 1])]
    return (await world.target.answer(request_of(key, Asked(topics, state_batches=STATE_BATCHES))))[0]


async def _names(world: ShareWorld, key: int) -> float:
    """As many names as an array has."""
    asked = Asked(names=NAMED, member_id=world.member())
    return (await world.target.answer(request_of(key, asked)))[0]


SHAPES: Final[dict[str, Shape]] = {
    "wide by id": Shape(frozenset({"topic_id"}), _wide),
    "wide by name": Shape(frozenset({"topic_name"}), _wide),
    "unknown ids": Shape(frozenset({"topic_id"}), _unknown_ids),
    "unknown names": Shape(frozenset({"topic_name"}), _unknown_ids),
    "many sessions": Shape(frozenset({"share_session_epoch", "max_wait_ms"}), many_sessions),
    "runs": Shape(frozenset({"acknowledgement_batches"}), _runs),
    "renewals": Shape(frozenset({"acknowledgement_batches", "is_renew_ack"}), _renewals),
    "waits": Shape(frozenset({"share_session_epoch", "max_wait_ms"}), _waits),
    "state batches": Shape(frozenset({"state_batches"}), _state_batches),
    "groups": Shape(frozenset({"group_ids"}), _names),
    "topic names": Shape(frozenset({"subscribed_topic_names"}), _names),
}


def shapes_of(key: int) -> dict[str, Shape]:
    """Return the shapes that an API's request can have."""
    names = field_names(key)
    return {name: shape for name, shape in SHAPES.items() if shape.needs <= names}
