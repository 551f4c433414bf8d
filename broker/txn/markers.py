"""All that one broker does about the end markers of transactions, put together."""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.coordinator.interfaces import AskBroker, EndOffsets
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.purgatory import Timer
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.time.clock import Clock
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.marker_writer import MarkerWriter


class Markers:
    """The markers that one broker writes, as a leader, and those that it has written, as a coordinator.

    Args:
        replicas: this broker's replicas.
        clock: the wall time of markers.
        timer: the times of retries.
        image: returns this broker's image.
        ask: sends requests to other brokers.
        timeout_ms: the longest wait for the in-sync replicas.
        end_offsets: the group coordinator's part.

    Attributes:
        writer: writes markers to the partitions that this broker leads.
        sender: has the markers of this broker's transactions written by the leaders.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        clock: Clock,
        timer: Timer,
        image: Callable[[], ClusterImage],
        ask: AskBroker,
        timeout_ms: int,
        end_offsets: EndOffsets,
    ) -> None:
        self.writer = MarkerWriter(replicas, clock, timeout_ms=timeout_ms, end_offsets=end_offsets)
        self.sender = MarkerSender(replicas.broker_id, image=image, write=self.writer.write, ask=ask, timer=timer)
