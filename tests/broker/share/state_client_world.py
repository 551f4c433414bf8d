"""A client of states among coordinators, brokers and an image that a test plays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from purgatorio.broker.coordinator.broker_calls import BrokerCalls, DelayedCalls, Retries
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.broker.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from purgatorio.broker.share.persister import ShareState
from purgatorio.broker.share.state.coordinator import Answer, StateOutcome
from purgatorio.broker.share.state_client import QUICK_RETRIES_MS, StateClient
from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.parts import parts_of
from purgatorio.protocol.share_state import RecordState, SharePartitionKey, StateBatch
from purgatorio.purgatory import ActionQueue, FinishedOperation, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.time.by_hand import HandWork

HERE = 1
ORDERS_ID = b"orders".ljust(16, b"\0")
BILLS_ID = b"bills".ljust(16, b"\0")
KEY = SharePartitionKey("billing", ORDERS_ID, 0)
STATE_0 = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)


def batch(first: int, last: int) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=RecordState.ACKNOWLEDGED, delivery_count=1)


def topic(name: str, *leaders: int, epoch: int = 0) -> Topic:
    """A topic with a partition per leader."""
    in_sync = tuple(BrokerIncarnation(each, each) for each in (1, 2, 3))
    states = tuple(PartitionState(leader, epoch, (1, 2, 3), in_sync) for leader in leaders)
    return Topic(name, name.encode().ljust(16, b"\0"), states)


def states(*leaders: int, epoch: int = 0) -> Topic:
    """The topic of states with a partition per leader; of one partition holds all keys."""
    return topic(SHARE_GROUP_STATE_TOPIC, *leaders, epoch=epoch)


@dataclass
class Sent:
    """A request to another broker, which the test answers."""

    broker_id: int
    api_key: ApiKey
    version: int
    request: Any
    done: Callable[[Any, Exception | None], None]

    @property
    def keys(self) -> list[SharePartitionKey]:
        return [
            SharePartitionKey(self.request.group_id, each.topic_id, entry.partition)
            for each in self.request.topics
            for entry in each.partitions
        ]

    @property
    def entries(self) -> list[Any]:
        return [entry for each in self.request.topics for entry in each.partitions]

    def answer(self, code: int = 0, *, by_partition: dict[int, int] | None = None, **fields: Any) -> None:
        """Answer with this error in each entry, or with these by partition; the fields are of entries without one."""
        (part,) = parts_of(self.api_key)
        response: Any = APIS[self.api_key].response()
        response.results = part.refused(self.request.topics, ErrorCode(code))
        for each in response.results:
            for result in each.partitions:
                result.error_code = (by_partition or {}).get(result.partition, code)
                if not result.error_code:
                    for name, value in fields.items():
                        setattr(result, name, value)
        self.done(response, None)

    def fail(self, error: Exception | None = None) -> None:
        self.done(None, error or ConnectionResetError("lost"))


@dataclass
class Here:
    """A request to the coordinator of this broker, which the test answers."""

    name: str
    key: SharePartitionKey
    arguments: dict[str, Any]
    done: Answer


@dataclass
class Told:
    """What a caller was told."""

    answers: list[tuple[ErrorCode, ShareState | None]] = field(default_factory=list)

    def __call__(self, error_code: ErrorCode, state: ShareState | None = None) -> None:
        self.answers.append((error_code, state))

    @property
    def error(self) -> ErrorCode:
        ((error_code, _),) = self.answers
        return error_code

    @property
    def state(self) -> ShareState | None:
        ((_, state),) = self.answers
        return state


class FakeCoordinator:
    """The coordinator of this broker."""

    def __init__(self) -> None:
        self.asked: list[Here] = []
        self.answers: list[StateOutcome] = []
        self.raises: Exception | None = None

    def __getattr__(self, name: str) -> Callable[..., None]:
        def ask(key: SharePartitionKey, *, done: Answer, **arguments: Any) -> None:
            if self.raises is not None:
                raise self.raises
            self.asked.append(Here(name, key, arguments, done))
            if self.answers:
                done(self.answers.pop(0))

        return ask


class World:
    """The client of broker 1; the state of all keys is in one partition, whose leader the test names."""

    def __init__(self, *topics: Topic, retries: int = 5, backoff_ms: int = 1_000, max_backoff_ms: int = 30_000) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms)
        known = {each.name: each for each in (topic("orders", 1, 1, 1), topic("bills", 1), *topics)}
        self.image = ClusterImage(1, "test", 1, {}, known)
        self.sent: list[Sent] = []
        self.coordinator = FakeCoordinator()
        self.creating: list[Callable[[], None]] = []
        self.finished: list[FinishedOperation] = []
        self.purgatory: Purgatory[Any] = Purgatory(
            "Persister", self.timer, actions=ActionQueue(), on_finished=self.finished.append
        )
        self.work = HandWork()
        self.calls = BrokerCalls(
            HERE,
            store=self,
            ask=self._ask,
            purgatories=SimpleNamespace(of=lambda row: self.purgatory),
            work=self.work.own,
        )
        self.client = StateClient(
            self.calls,
            self.coordinator,  # type: ignore[arg-type]  # a fake
            image=lambda: self.image,
            create_topic=self.creating.append,
            partitions=1,
            retries=Retries(backoff_ms, max_backoff_ms, times=retries, quick_ms=QUICK_RETRIES_MS),
        )

    def turn(self) -> int:
        """Let the calls go on in turns of the loop, if they want to; returns the number of these, but for the last."""
        return max(0, sum(1 for _ in self.work.turns()) - 1)

    def _ask(self, broker_id: int, api_key: ApiKey, version: int, message: Any, done: Callable[..., None]) -> None:
        self.sent.append(Sent(broker_id, api_key, version, message, done))

    def elect(self, *topics: Topic, deleted: Sequence[str] = ()) -> None:
        """A new image, in which these topics have changed."""
        image = self.image.with_topics(topics).without_topics(deleted)
        self.image = image.with_version(self.image.version + 1)
        self.calls.image_changed(self.image)

    def advance_ms(self, delta_ms: int) -> None:
        self.clock.advance_ms(delta_ms)
        self.timer.advance(self.clock.now_ms())

    @property
    def waiting(self) -> DelayedCalls:
        """The only call that waits to be made again."""
        (parked,) = self.purgatory.operations()
        operation = self.purgatory.find(parked.id)
        assert isinstance(operation, DelayedCalls)
        return operation

    # --- calls ---

    def initialize(self, key: SharePartitionKey = KEY, *, state_epoch: int = 1, start_offset: int = -1) -> Told:
        told = Told()
        self.client.initialize(key, state_epoch=state_epoch, start_offset=start_offset, done=told)
        return told

    def read(self, key: SharePartitionKey = KEY, *, leader_epoch: int = 4) -> Told:
        told = Told()
        self.client.read(key, leader_epoch=leader_epoch, done=told)
        return told

    def write(
        self,
        *batches: StateBatch,
        key: SharePartitionKey = KEY,
        start_offset: int = 0,
        leader_epoch: int = 4,
        complete_count: int = 2,
    ) -> Told:
        told = Told()
        self.client.write(
            key,
            state_epoch=1,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            batches=batches,
            done=told,
        )
        return told

    def delete(self, key: SharePartitionKey = KEY) -> Told:
        told = Told()
        self.client.delete(key, done=told)
        return told

    def summary(self, key: SharePartitionKey = KEY) -> Told:
        told = Told()
        self.client.summary(key, done=told)
        return told

    def take(self) -> list[Sent]:
        sent, self.sent = self.sent, []
        return sent

    def only(self) -> Sent:
        (sent,) = self.take()
        return sent
