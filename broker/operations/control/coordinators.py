"""How an operator's changes reach the coordinators of this process, and are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.operations.errors import ClusterUnavailable
from purgatorio.broker.time.clock import Clock, time_limit


class _Broker(Protocol):
    @property
    def broker_id(self) -> int: ...


B = TypeVar("B", bound=_Broker)
S = TypeVar("S", bound=Shard)
T = TypeVar("T")


def led_shards(
    brokers: Iterable[B], image: ClusterImage, shards_of: Callable[[B], Iterable[S]]
) -> Iterator[tuple[B, S]]:
    """Yield the shards with their coordinators; loading ones too, but not those of former coordinators."""
    for broker in brokers:
        for shard in shards_of(broker):
            state = image.partition(*shard.tp)
            if state is not None and state.leader == broker.broker_id:
                yield broker, shard


def running_leader(brokers: Iterable[B], image: ClusterImage, tp: TopicPartition, what: str) -> B:
    """Return the broker that leads a partition.

    Args:
        what: names the partition in messages.

    Raises:
        ClusterUnavailable: it has no leader, or its leader does not run in this process.
    """
    state = image.partition(*tp)
    leader = NO_LEADER if state is None else state.leader
    for broker in brokers:
        if broker.broker_id == leader:
            return broker
    if leader == NO_LEADER:
        raise ClusterUnavailable(f"{what} has no leader now")
    raise ClusterUnavailable(f"broker {leader}, the leader of {what} does not run")


async def answer_of(change: Callable[[Callable[[T], None]], None], clock: Clock, time_limit_ms: int, what: str) -> T:
    """Make a change, and return what it calls back with; it may do so more than once, or not in time.

    Args:
        what: names the coordinator in a message.

    Raises:
        ClusterUnavailable: it did not call back in time.
    """
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def answered(result: T) -> None:
        if not answer.done():
            answer.set_result(result)

    change(answered)
    try:
        async with time_limit(clock, time_limit_ms):
            return await answer
    except TimeoutError:
        raise ClusterUnavailable(f"{what} does not answer; it may still do it") from None
