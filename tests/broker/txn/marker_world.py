"""A marker sender among leaders, brokers and an image that a test plays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from purgatorio.broker.coordinator.broker_calls import BrokerCalls
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.broker.txn.marker_sender import MarkerSender, TransactionEnd
from purgatorio.broker.txn.marker_writer import Marker, Written
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from purgatorio.purgatory import ActionQueue, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.time.by_hand import HandWork

HERE = 1
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
BILLS_0 = TopicPartition("bills", 0)


def topic(name: str, *leaders: int, epoch: int = 0, isr: tuple[int, ...] = (1, 2, 3)) -> Topic:
    """A topic with a partition per leader."""
    in_sync = tuple(BrokerIncarnation(each, each) for each in isr)
    states = tuple(PartitionState(leader, epoch, (1, 2, 3), in_sync) for leader in leaders)
    return Topic(name, name.encode().ljust(16, b"\0"), states)


@dataclass
class Asked:
    """A request to another broker, which the test answers."""

    broker_id: int
    version: int
    request: WriteTxnMarkersRequest
    done: Callable[[Any, Exception | None], None]

    @property
    def partitions(self) -> list[tuple[int, TopicPartition]]:
        return [
            (marker.producer_id, TopicPartition(each.name, index))
            for marker in self.request.markers
            for each in marker.topics
            for index in each.partition_indexes
        ]

    def answer(self, code: int = 0, *, by_partition: dict[TopicPartition, int] | None = None) -> None:
        codes = by_partition or {}
        self.done(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=[
                            WritableTxnMarkerTopicResult(
                                name=each.name,
                                partitions=[
                                    WritableTxnMarkerPartitionResult(
                                        partition_index=index,
                                        error_code=codes.get(TopicPartition(each.name, index), code),
                                    )
                                    for index in each.partition_indexes
                                ],
                            )
                            for each in marker.topics
                        ],
                    )
                    for marker in self.request.markers
                ]
            ),
            None,
        )

    def fail(self, error: Exception | None = None) -> None:
        self.done(None, error or ConnectionResetError("lost"))


@dataclass
class Here:
    """Markers for partitions of this broker, which the test answers."""

    marker: Marker
    partitions: list[TopicPartition]
    written: Written
    client: str

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        for tp in self.partitions:
            self.written(tp, code)


@dataclass
class Told:
    """What the coordinator was told of one transaction."""

    written: list[TopicPartition] = field(default_factory=list)
    gave_up: list[ErrorCode] = field(default_factory=list)


class World:
    """A sender between a coordinator and brokers that the test plays."""

    def __init__(self, *topics: Topic) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms)
        self.image = ClusterImage(1, "test", 1, {}, {each.name: each for each in topics})
        self.asked: list[Asked] = []
        self.here: list[Here] = []
        self.raises: Exception | None = None
        self.is_instant = False
        self.purgatory: Purgatory[Any] = Purgatory("Marker", self.timer, actions=ActionQueue())
        self.calls = BrokerCalls(
            HERE,
            store=self,
            ask=self._ask,
            purgatories=SimpleNamespace(of=lambda row: self.purgatory),
            work=HandWork().own,
        )
        self.sender = MarkerSender(self.calls, self._write)

    def _ask(self, broker_id: int, api_key: ApiKey, version: int, message: Any, done: Callable[..., None]) -> None:
        assert api_key == ApiKey.WRITE_TXN_MARKERS
        self.asked.append(Asked(broker_id, version, message, done))

    def _write(self, marker: Marker, partitions: list[TopicPartition], written: Written, client: str) -> None:
        if self.raises is not None:
            raise self.raises
        self.here.append(Here(marker, partitions, written, client))
        if self.is_instant:
            self.here.pop().answer()

    def end(
        self,
        *partitions: TopicPartition,
        name: str = "billing-1",
        producer_id: int = 7,
        epoch: int = 0,
        version: int = 1,
    ) -> Told:
        told = Told()
        end = TransactionEnd(name, producer_id, 3, True, epoch, partitions, version)
        self.sender.end(end, written=told.written.append, gave_up=told.gave_up.append)
        return told

    def elect(self, *topics: Topic, deleted: Iterable[str] = ()) -> None:
        """A new image, in which these topics have changed."""
        image = self.image.with_topics(topics).without_topics(deleted)
        self.image = image.with_version(self.image.version + 1)
        self.calls.image_changed(self.image)

    def advance_ms(self, delta_ms: int) -> None:
        self.clock.advance_ms(delta_ms)
        self.timer.advance(self.clock.now_ms())
        for _ in self.calls.steps():
            pass

    def turn(self) -> None:
        """Let this broker write the markers of one turn of the loop."""
        next(self.calls.steps(), None)

    def take(self) -> list[Asked]:
        asked, self.asked = self.asked, []
        return asked

    def only(self) -> Asked:
        (asked,) = self.take()
        return asked
