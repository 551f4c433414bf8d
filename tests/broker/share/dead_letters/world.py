"""Dead letters of broker 1, which leads orders; the test leads their topic, or is its leader."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from purgatorio.broker.coordinator.broker_calls import BrokerCalls
from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.share.dead_letters.destination import DeadLetterRules
from purgatorio.broker.share.dead_letters.queue import DeadLetterQueue
from purgatorio.broker.share.giving_up import Archived, GiveUpCause
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.dead_letter import DeadLetterHeaders
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches, iter_records
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import FinishedOperation, Purgatory, Timer
from tests.broker.replica.harness import ORDERS, Harness, topic
from tests.broker.tier.stores import TestStore
from tests.broker.time.by_hand import HandWork

DLQ = TopicPartition("dlq.jobs", 0)


@dataclass(eq=False)
class Owner:
    """A share partition that gives up."""

    key: SharePartitionKey
    tp: TopicPartition
    leader_epoch: int = 0
    ended: list[Archived] = field(default_factory=list)

    def archived(self, ranges: Sequence[Archived]) -> None:
        self.ended += ranges

    @property
    def told(self) -> list[tuple[int, int, bool]]:
        return [(each.first_offset, each.last_offset, each.is_dead_letter) for each in self.ended]


def owner(partition: int = 0, group: str = "jobs", epoch: int = 0) -> Owner:
    return Owner(
        SharePartitionKey(group, b"orders".ljust(16, b"\0"), partition), TopicPartition("orders", partition), epoch
    )


def dlq(leader: int = 1, **configs: str) -> Topic:
    """The dead-letter topic, which allows it."""
    return topic("dlq.jobs", leader=leader, replicas=(1,), **{"errors_deadletterqueue_group_enable": "true", **configs})


@dataclass
class Sent:
    """A request to another broker, which the test answers."""

    broker_id: int
    request: Any
    done: Callable[[Any, Exception | None], None]

    @property
    def batch(self) -> bytes:
        return bytes(self.request.topic_data[0].partition_data[0].records)

    @property
    def letters(self) -> list[Record]:
        return list(iter_records(self.batch))

    @property
    def offsets(self) -> list[int]:
        return offsets_of(self.letters)

    def answer(self, code: ErrorCode = ErrorCode.NONE, message: str | None = None) -> None:
        result = PartitionProduceResponse(index=0, error_code=code, error_message=message)
        self.done(ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[result])]), None)

    def fail(self, error: Exception | None = None) -> None:
        self.done(None, error or ConnectionResetError("lost"))


def offsets_of(letters: Sequence[Record]) -> list[int]:
    told = [DeadLetterHeaders.decode(each.headers) for each in letters]
    return [each.offset for each in told if each is not None]


class World(Harness):
    """A broker whose groups have dead-letter topic dlq.jobs."""

    def __init__(
        self,
        *topics: Topic,
        partitions: int = 1,
        copies: bool = True,
        creates_topics: bool = False,
        store: TestStore | None = None,
        **configs: str,
    ) -> None:
        super().__init__(store)
        self.settings = ShareSettings(dead_letter_topic="dlq.jobs", copies_dead_letters=copies)
        self.rules = DeadLetterRules(
            is_on=True,
            prefix="dlq.",
            creates_topics=creates_topics,
            log_config=lambda each: LogConfig.from_strings(each.configs),
        )
        self.orders = topic(replicas=(1,), partitions=partitions, **configs)
        self.set_topics(self.orders, *topics)
        self.sent: list[Sent] = []
        self.creating: list[tuple[str, Callable[[str | None], None]]] = []
        self.ended: list[FinishedOperation] = []
        self.timers.append(Timer(self.clock.now_ms))
        self.purgatory: Purgatory[Any] = Purgatory(
            "DeadLetter", self.timers[-1], actions=self.actions, on_finished=self.ended.append
        )
        purgatories = SimpleNamespace(of=lambda row: self.purgatory)
        self.calls_work, self.queue_work = HandWork(), HandWork()
        self.calls = BrokerCalls(1, store=self, ask=self._ask, purgatories=purgatories, work=self.calls_work.own)
        self.queue = DeadLetterQueue(
            self.calls,
            self.replicas,
            image=lambda: self.image,
            settings=lambda group: self.settings,
            rules=self.rules,
            create_topic=lambda name, done: self.creating.append((name, done)),
            clock=self.clock,
            work=self.queue_work.own,
        )

    def _ask(self, broker_id: int, api_key: ApiKey, version: int, message: Any, done: Callable[..., None]) -> None:
        assert api_key == ApiKey.PRODUCE
        self.sent.append(Sent(broker_id, message, done))

    def elect(self, *topics: Topic, deleted: Sequence[str] = ()) -> None:
        """A new image, in which these topics have changed."""
        image: ClusterImage = self.image.with_topics(topics).without_topics(deleted)
        self.image = image.with_version(self.image.version + 1)
        self.replicas.apply(self.image)
        self.calls.image_changed(self.image)

    def set(self, **settings: Any) -> None:
        """Change the settings of groups."""
        self.settings = replace(self.settings, **settings)

    def has(self, count: int, tp: TopicPartition = ORDERS, size: int = 1) -> None:
        """Append so many records, with their number as the beginning of their value."""
        made = [Record(nth, 1_000, b"k", b"%d" % nth + b"." * (size - 1)) for nth in range(count)]
        self.produce(tp, records=build_batch(made), acks=1)

    def give_up(
        self,
        by: Owner,
        first_offset: int,
        last_offset: int | None = None,
        *,
        count: int = 1,
        cause: GiveUpCause = GiveUpCause.REJECTED,
    ) -> None:
        last_offset = first_offset if last_offset is None else last_offset
        self.queue.give_up(by, first_offset, last_offset, count, cause)

    def turn(self) -> int:
        """Let the queue go on, if it wants to; returns the number of turns that this takes."""
        turns = sum(1 for _ in self.queue_work.turns())
        deque(self.calls_work.turns(), maxlen=0)
        return turns

    @property
    def letters(self) -> list[Record]:
        """What this broker's dead-letter topic has."""
        log = self.partition(DLQ).log
        read = log.read(0, max_bytes=1 << 30, end_offset=log.log_end_offset)
        return [record for part in read.parts for _, batch in iter_batches(part) for record in iter_records(batch)]

    @property
    def offsets(self) -> list[int]:
        return offsets_of(self.letters)

    def take(self) -> list[Sent]:
        sent, self.sent = self.sent, []
        return sent

    def only(self) -> Sent:
        (sent,) = self.take()
        return sent

    @property
    def waits(self) -> list[Any]:
        """The causes of what waits."""
        return [cause for each in self.purgatory.operations() for cause in each.causes]
