"""Records finished delayed operations in the topic ``__delayed_operations``, for analysis.

A broker records while the topic exists. ``purgatorio cluster --record-delays`` creates it, and any client may.
When an operation has ended, the broker makes one record of it: JSON as in
``purgatorio/schemas/delayed_operation.v1.json``. The broker appends to a partition that it leads itself; while it leads
none, it keeps the events, up to a limit.

The broker does not record the topic's own traffic, because each record would cause further ones: neither fetches of
this topic alone, nor follower fetches that one of its records has completed.
"""

from __future__ import annotations

import json
import random
from collections import deque
from itertools import islice
from typing import Any, Final

from purgatorio.broker.delays.finished import detail_of, kind_of
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicResult, TopicSettings, create_topics
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.replica.fetching.delayed_fetch import FollowerKey
from purgatorio.broker.replica.producing.writes import AppendResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.time.long_work import Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory import FinishedOperation
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)

TOPIC: Final = "__delayed_operations"
TOPIC_CONFIGS: Final = {"retention.bytes": str(64 * 1024 * 1024), "segment.bytes": str(8 * 1024 * 1024)}
"""The configuration that the topic is created with. All topics share the memory: it must leave room for the users'."""
SCHEMA_VERSION: Final = 1
MAX_KEYS: Final = 100
"""Most keys of an operation in its event; the schema has the same limit."""
MAX_TEXT: Final = 500
"""Most characters of a text in an event."""
MAX_WAITING: Final = 20_000
"""Most events that wait to be appended; the recorder drops and counts further ones."""
MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of these events. An event with many partitions has about 10 kB."""
BATCH_EVENTS: Final = 500
"""Most events appended in one step. The event loop makes a turn between two steps."""
BATCH_BYTES: Final = 256 * 1024
"""Most bytes of these events before compression: some milliseconds' work, well below the limit of one batch."""
LINGER_MS: Final = 200


class DelayRecorder:
    """Records the finished operations of one broker.

    Args:
        replicas: appends the events, and reports the partitions of the topic that this broker leads.
        clock: converts the operations' monotonic times to wall time.
        metrics: counts the events that are appended, and those that are dropped because too many wait or because the
            topic refuses them.
    """

    def __init__(self, replicas: ReplicaManager, clock: Clock, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self._replicas = replicas
        self._clock = clock
        self._waiting: deque[Record] = deque()
        self._waiting_bytes = 0
        self._is_wanted = False
        self._led: dict[TopicPartition, None] = {}
        replicas.add_leadership_listener(self)

    def image_changed(self, image: ClusterImage) -> None:
        """Start to record if the topic has been created; stop, and drop all events, if it is gone."""
        self._is_wanted = TOPIC in image.topics
        if not self._is_wanted:
            self._waiting.clear()
            self._waiting_bytes = 0

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        if tp.topic == TOPIC:
            self._led[tp] = None

    def resigned(self, tp: TopicPartition) -> None:
        self._led.pop(tp, None)

    def add(self, operation: FinishedOperation) -> None:
        """Keep the event of an operation that has just ended, if the topic exists."""
        if not self._is_wanted or _is_own(operation):
            return
        incarnation = self._replicas.incarnation
        if len(self._waiting) >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES or incarnation is None:
            self._metrics.delays_dropped += 1
            return
        to_wall_ms = self._clock.wall_ms() - self._clock.now_ms()
        event = event_of(operation, incarnation, to_wall_ms)
        value = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
        self._waiting.append(Record(0, operation.done_ms + to_wall_ms, None, value))
        self._waiting_bytes += len(value)

    def steps(self) -> Steps:
        """Append the events that wait, one batch per step. Those that cannot be appended now wait for the next call."""
        left = len(self._waiting)
        while left > 0:
            events = self._oldest()
            if not self._append(events):
                return
            left -= len(events)
            yield 0

    def _oldest(self) -> list[Record]:
        """Return the events of the next batch: at least one, if any wait."""
        events: list[Record] = []
        size = 0
        for record in islice(self._waiting, BATCH_EVENTS):
            size += len(record.value or b"")
            if events and size > BATCH_BYTES:
                break
            events.append(record)
        return events

    def _append(self, events: list[Record]) -> bool:
        """Append these events, the oldest that wait. True if they are settled: appended, or refused and dropped."""
        tp = min(self._led, default=None)
        if tp is None or not events:
            return False
        batch = build_batch(
            (record._replace(offset=nth) for nth, record in enumerate(events)), compression=Compression.ZSTD
        )
        results: list[AppendResult] = []
        self._replicas.append([(tp, batch)], acks=1, timeout_ms=0, done=results.extend)  # acks=1: done on return
        (result,) = results
        if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return False
        for _ in events:
            self._waiting_bytes -= len(self._waiting.popleft().value or b"")
        if result.error_code:
            self._metrics.delays_dropped += len(events)
            logger.warning("delayed operations could not be recorded", partition=str(tp), error=result.error_code.name)
        else:
            self._metrics.delays_recorded += len(events)
        return True


def create_delays_topic(store: MetadataStore, partitions: int, *, settings: TopicSettings, rng: random.Random) -> None:
    """Create the topic for delayed operations if it does not exist; a failure is logged.

    Args:
        partitions: the number of brokers, so that each broker can append to a partition that it leads.
        rng: chooses the topic id and the placement.
    """
    topic = NewTopic(TOPIC, partitions, configs=TOPIC_CONFIGS)

    def done(results: tuple[TopicResult, ...]) -> None:
        for result in results:
            if result.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                logger.error("delayed operations are not recorded", topic=TOPIC, why=result.message)

    store.submit(lambda image: create_topics(image, [topic], settings=settings, rng=rng), done)


def _is_own(operation: FinishedOperation) -> bool:
    """True if a record of the topic ended the operation, or if the operation concerns no other topic."""
    key = operation.event_key
    if isinstance(key, TopicPartition) and key.topic == TOPIC:
        return True
    # A follower fetch also has the key of the follower, the last one, which names no topic.
    keys = operation.keys
    count = len(keys) - 1 if keys and isinstance(keys[-1], FollowerKey) else len(keys)
    return count > 0 and all(isinstance(key, TopicPartition) and key.topic == TOPIC for key in islice(keys, count))


def event_of(operation: FinishedOperation, incarnation: BrokerIncarnation, to_wall_ms: int) -> dict[str, Any]:
    """Make the event of an operation, as the schema defines it.

    Args:
        to_wall_ms: the difference between wall time, in milliseconds since 1970, and the operation's times.
    """
    keys = operation.keys
    partitions = (key for key in keys if isinstance(key, TopicPartition) and key.topic != TOPIC)
    others = (str(key)[:MAX_TEXT] for key in keys if not isinstance(key, TopicPartition))
    return {
        "version": SCHEMA_VERSION,
        "broker": incarnation.broker_id,
        "broker_epoch": incarnation.broker_epoch,
        "purgatory": operation.purgatory,
        "kind": kind_of(operation.purgatory, keys).noun,
        "id": operation.id,
        "client": operation.client[:MAX_TEXT],
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in islice(partitions, MAX_KEYS)],
        "other_keys": list(islice(others, MAX_KEYS)),
        "parked_ms": operation.parked_ms + to_wall_ms,
        "done_ms": operation.done_ms + to_wall_ms,
        "deadline_ms": operation.deadline_ms + to_wall_ms,
        "outcome": operation.outcome,
        "cause": operation.cause,
        "held_by": [holder for holder in operation.held_by if isinstance(holder, int)],
        "checks": operation.checks,
        "detail": detail_of(operation)[:MAX_TEXT],
    }
