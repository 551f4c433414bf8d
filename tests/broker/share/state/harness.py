"""The share coordinator of broker 1 over its replicas; the test sets the time and the image, and plays followers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import Topic
from purgatorio.broker.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from purgatorio.broker.share.persister import ShareState
from purgatorio.broker.share.state.coordinator import StateOutcome
from purgatorio.broker.share.state.kept_state import KeptState
from purgatorio.broker.share.state.services import ShareStateConfig, ShareStateServices
from purgatorio.broker.share.state.share_states import ShareStates
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import iter_records
from purgatorio.protocol.share_state import (
    RecordState,
    SharePartitionKey,
    ShareSnapshotValue,
    StateBatch,
    Value,
    decode_key,
    decode_value,
)
from purgatorio.purgatory import Timer
from tests.broker.replica.harness import MIB, Harness, topic
from tests.broker.time.by_hand import HandWork, turns_of

PARTITION = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)
"""The only partition of the topic, which holds all share partitions."""
ORDERS_ID = b"orders".ljust(16, b"\0")
KEY = SharePartitionKey("billing", ORDERS_ID, 0)
OTHER = SharePartitionKey("billing", ORDERS_ID, 1)
AVAILABLE, ACKED, ARCHIVED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


def batch(first: int, last: int, state: int = ACKED, count: int = 1) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def state_topic(replicas: tuple[int, ...] = (1,), leader: int = 1, leader_epoch: int = 0) -> Topic:
    """Return ``__share_group_state`` with one partition."""
    return topic(
        SHARE_GROUP_STATE_TOPIC,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch,
        replicas=replicas,
        cleanup_policy="delete",
        retention_ms="-1",
    )


@dataclass
class Asked:
    """A request, and its answers."""

    answers: list[StateOutcome] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> StateOutcome:
        assert len(self.answers) == 1, f"a request is answered once, not {self.answers}"
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        return self.answer.error_code

    @property
    def state(self) -> ShareState:
        assert self.error == ErrorCode.NONE, self.answer
        assert self.answer.state is not None
        return self.answer.state


class ShareHarness(Harness):
    """Broker 1 with its share coordinator, and a topic "orders" of two partitions.

    Args:
        replicas: the replicas of ``__share_group_state``; with the default an append is committed at once.
        config: settings of the coordinator that differ from the defaults.
    """

    def __init__(self, replicas: tuple[int, ...] = (1,), **config: int) -> None:
        super().__init__()
        timer = Timer(self.clock.now_ms)
        self.timers.append(timer)
        self.config = ShareStateConfig(topic_partitions=1, **config)
        self.log = CoordinatorLog(self.replicas, self.clock, timer, self.config.write_timeout_ms)
        self.state_work = HandWork()
        services = ShareStateServices(
            config=self.config, log=self.log, clock=self.clock, image=lambda: self.image, work=self.state_work.own
        )
        self.shares = ShareStates(services, self.replicas)
        self.coordinator = self.shares.coordinator
        self.set_state_topic(state_topic(replicas))

    # --- roles ---

    def set_state_topic(self, *topics: Topic) -> None:
        """Apply an image with these topics beside "orders"."""
        self.set_topics(topic("orders", partitions=2), *topics)

    def delete_orders(self) -> None:
        self.set_topics(state_topic())

    def elect(self, leader: int, leader_epoch: int, replicas: tuple[int, ...] = (1, 2)) -> None:
        """Make a broker the leader of the partition of ``__share_group_state``, in a new leader epoch."""
        self.set_state_topic(state_topic(replicas, leader, leader_epoch))

    def move(self, leader_epoch: int, replicas: tuple[int, ...] = (1, 2)) -> None:
        """Take the partition from this broker and elect it again, so that it loads what is in the log."""
        self.elect(2, leader_epoch - 1, replicas)
        self.work()
        self.elect(1, leader_epoch, replicas)
        self.work()
        self.commit()
        self.work()

    def work(self) -> int:
        """Load and unload what waits for it; returns the number of steps."""
        return turns_of(self.coordinator.steps())

    def commit(self, *followers: int) -> None:
        """Let followers, broker 2 by default, fetch all of the partition: everything is committed."""
        end = self.partition(PARTITION).log.log_end_offset
        start = self.partition(PARTITION).log.log_start_offset
        self.follow(*((each, end) for each in followers or (2,)), tp=PARTITION, log_start_offset=start)

    # --- requests ---

    def initialize(self, key: SharePartitionKey = KEY, *, state_epoch: int = 1, start_offset: int = -1) -> Asked:
        return self._asked(
            lambda done: self.coordinator.initialize(key, state_epoch=state_epoch, start_offset=start_offset, done=done)
        )

    def read(self, key: SharePartitionKey = KEY, *, leader_epoch: int = 0) -> Asked:
        return self._asked(lambda done: self.coordinator.read(key, leader_epoch=leader_epoch, done=done))

    def write(
        self,
        *batches: StateBatch,
        key: SharePartitionKey = KEY,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start_offset: int = 0,
        complete_count: int = 0,
    ) -> Asked:
        return self._asked(
            lambda done: self.coordinator.write(
                key,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=complete_count,
                batches=batches,
                done=done,
            )
        )

    def delete(self, key: SharePartitionKey = KEY) -> Asked:
        return self._asked(lambda done: self.coordinator.delete(key, done=done))

    def summary(self, key: SharePartitionKey = KEY) -> Asked:
        return self._asked(lambda done: self.coordinator.summary(key, done=done))

    def _asked(self, ask: Callable[[Callable[[StateOutcome], None]], None]) -> Asked:
        asked = Asked()
        ask(asked.answers.append)
        return asked

    # --- what there is ---

    @property
    def states(self) -> Any:
        (shard,) = self.coordinator.shards
        return shard.states

    def kept(self, key: SharePartitionKey = KEY) -> KeptState:
        state: KeptState = self.states[key]
        return state

    def logged(self, key: SharePartitionKey = KEY) -> list[Value | None]:
        """Return the values of a share partition in the log, in order; None for a tombstone."""
        log = self.partition(PARTITION).log
        values: list[Value | None] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = b"".join(log.read(offset, max_bytes=MIB, end_offset=log.log_end_offset).parts)
            for record in iter_records(data):
                if record.offset < offset:
                    continue
                offset = record.offset + 1
                decoded = decode_key(record.key or b"")
                if decoded is not None and (decoded.group_id, decoded.topic_id, decoded.partition) == key:
                    values.append(decode_value(decoded, record.value))
        return values

    def snapshots(self, key: SharePartitionKey = KEY) -> list[ShareSnapshotValue]:
        return [each for each in self.logged(key) if isinstance(each, ShareSnapshotValue)]


def initialized(broker: ShareHarness, *keys: SharePartitionKey) -> None:
    """Begin states at offset 0, each read with leader epoch 0; they are committed."""
    for key in keys or (KEY,):
        asked = broker.initialize(key, start_offset=0), broker.read(key)
        if not asked[-1].answered:
            broker.commit()
        assert [each.error for each in asked] == [ErrorCode.NONE] * 2
