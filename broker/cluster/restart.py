"""The rolling restart: one broker after the other, each when all replicas are in sync.

Logs are in memory, so a broker that restarts has lost its replicas and fetches them again from the leaders. The next
broker may stop only when that is done; otherwise acknowledged records could be lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol

from purgatorio.broker.cluster.errors import NotInSync
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage, PartitionState
from purgatorio.purgatory.clock import Clock

RESTART_TIME_LIMIT_MS: Final = 60_000
"""Time that each restarted broker has to get in sync; it fetches no more than one process can hold in memory."""
IN_SYNC_POLL_MS: Final = 20


class Restartable(Protocol):
    """Brokers that a rolling restart stops and starts: a real cluster's or a simulated one's."""

    @property
    def clock(self) -> Clock:
        """The clock of all brokers."""

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all brokers."""

    @property
    def image(self) -> ClusterImage:
        """The newest metadata; a broker that has just started is registered in it."""

    def stop_broker(self, broker_id: int) -> Awaitable[None]:
        """Stop a broker in good order."""

    def start_broker(self, broker_id: int) -> Awaitable[None]:
        """Start a broker; it is registered when this returns."""


def partitions_of(image: ClusterImage, only: str | None = None) -> Iterable[tuple[TopicPartition, PartitionState]]:
    """All partitions of all topics, or of only one, if there is such a topic."""
    topics = image.topics.values() if only is None else [image.topics[only]] if only in image.topics else []
    for topic in topics:
        for index, state in enumerate(topic.partitions):
            yield TopicPartition(topic.name, index), state


def not_in_sync(image: ClusterImage) -> list[TopicPartition]:
    """The partitions that have a replica outside the ISR, or one whose broker is not alive."""
    return [
        tp
        for tp, state in partitions_of(image)
        if not set(state.replicas)
        <= {incarnation.broker_id for incarnation in state.isr if image.is_alive(incarnation)}
    ]


async def wait_until_in_sync(cluster: Restartable, time_limit_ms: float) -> None:
    """Wait until every partition has all its replicas in the ISR.

    Raises:
        NotInSync: the time limit has passed.
    """
    clock = cluster.clock
    deadline_ms = clock.now_ms() + time_limit_ms
    image: ClusterImage | None = None
    missing: list[TopicPartition] = []
    while True:
        if cluster.image is not image:
            image = cluster.image
            missing = not_in_sync(image)
        if not missing:
            return
        if clock.now_ms() >= deadline_ms:
            raise NotInSync(missing, time_limit_ms)
        await clock.sleep(IN_SYNC_POLL_MS)


async def rolling_restart(
    cluster: Restartable,
    *,
    time_limit_ms: float = RESTART_TIME_LIMIT_MS,
    wait: Callable[[Restartable, float], Awaitable[None]] = wait_until_in_sync,
) -> None:
    """Stop and start the brokers one after the other; before each and at the end, wait until all replicas are in sync.

    Args:
        wait: waits until all replicas are in sync; the simulation replaces it to show why the wait is needed.

    Raises:
        NotInSync: a wait took too long; the brokers that follow were not touched.
    """
    await wait(cluster, time_limit_ms)
    for broker_id in cluster.broker_ids:
        await cluster.stop_broker(broker_id)
        await cluster.start_broker(broker_id)
        await wait(cluster, time_limit_ms)
