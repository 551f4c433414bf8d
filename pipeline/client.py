"""The Kafka client behind the data source: confluent-kafka, told what the data source needs of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, KeysView, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    Uuid,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from purgatorio.pipeline.offsets import OffsetRange, Offsets, TopicPartition
from purgatorio.pipeline.options import Position, ReadOptions

TIMEOUT_SECONDS: Final = 20.0
"""How long a broker is waited for; an answer that takes longer is an error."""
ATTEMPT_SECONDS: Final = 2.0
"""How long the first attempt at listing offsets may take; each further one twice as long. A broker that has died lets
an attempt take all its time, and only the next one goes to its successor.
"""
POLL_RECORDS: Final = 10_000
POLL_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 0.1
GONE_SECONDS: Final = 2.0
"""How long a partition that brokers do not know is asked for again, before it is believed to be gone."""

_DEFAULTS: Final = {"client.id": "purgatorio-spark", "log_level": "0"}
_NO_ID: Final = str(Uuid(0, 0))
_ISOLATION: Final = "isolation.level"
_READ_UNCOMMITTED: Final = "read_uncommitted"
"""The default of Spark's Kafka connector; the client's own is read_committed."""


class BrokerUnreachable(Exception):
    """No broker answers in time."""


class UnknownTopic(Exception):
    """There is no such topic or partition."""


class Troubles:
    """What went wrong with a client's connections: it tells that to a callback, and to the one who waits only that
    time has run out.
    """

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Take note; the client calls it, in the thread that asks the client for something."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # which says less than the one before it
            self.last = error

    def __str__(self) -> str:
        return "" if self.last is None else f"; its last error: {self.last.str()}"


class Metadata:
    """Asks which partitions there are, and where they begin and end; all of them in one question.

    Args:
        client: settings of the client.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self.topic_ids: dict[str, str] = {}
        """By name, the ids of the topics whose partitions were asked for last, as far as brokers give them any
        (KIP-516): a topic that is made anew has another one.
        """
        self._servers = client["bootstrap.servers"]
        self._troubles = Troubles()
        settings: dict[str, Any] = {**_DEFAULTS, **client, "error_cb": self._troubles}
        self._admin = AdminClient(settings)
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if client.get(_ISOLATION, _READ_UNCOMMITTED) == _READ_UNCOMMITTED
            else IsolationLevel.READ_COMMITTED
        )

    def partitions(self, options: ReadOptions) -> list[TopicPartition]:
        """The partitions that the options mean.

        Raises:
            UnknownTopic: one that is named is not there.
            BrokerUnreachable: nobody answers.
        """
        topics = self._topics()
        if options.pattern is not None:
            names: Iterable[str] = [name for name in topics if re.fullmatch(options.pattern, name)]
        else:
            names = options.topics or options.partitions
        found = []
        for name in names:
            if name not in topics:
                raise UnknownTopic(f"there is no topic {name!r} at {self._servers}")
            chosen = options.partitions.get(name, topics[name])
            unknown = [partition for partition in chosen if partition not in topics[name]]
            if unknown:
                raise UnknownTopic(f"topic {name!r} has {len(topics[name])} partitions; there is no {unknown[0]}")
            found += [TopicPartition(name, partition) for partition in chosen]
        self.topic_ids = self._ids(sorted({tp.topic for tp in found}))
        return sorted(found)

    def earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where they begin."""
        return self._offsets(partitions, OffsetSpec.earliest())

    def latest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where what is committed ends."""
        return self._offsets(partitions, OffsetSpec.latest())

    def by_timestamp(
        self, partitions: list[TopicPartition], position: Position, latest: Offsets
    ) -> dict[TopicPartition, int]:
        """For those whose position is a timestamp: the first offset with it or a later one, else the end."""
        wanted = {}
        for tp in partitions:
            timestamp = position.timestamps_ms.get(tp.topic, {}).get(tp.partition, position.timestamp_ms)
            if timestamp is not None:
                wanted[tp] = OffsetSpec.for_timestamp(timestamp)
        found = self._list(wanted)
        return {tp: offset if offset >= 0 else latest[tp] for tp, offset in found.items()}

    def _topics(self) -> dict[str, list[int]]:
        self._admin.poll(0)
        self._troubles.last = None
        try:
            found = self._admin.list_topics(timeout=TIMEOUT_SECONDS)
        except KafkaException as error:
            self._admin.poll(0)
            raise BrokerUnreachable(
                f"no broker at {self._servers} answers within {TIMEOUT_SECONDS:g} s{self._troubles}"
            ) from error
        return {name: sorted(topic.partitions) for name, topic in sorted(found.topics.items()) if topic.error is None}

    def _ids(self, names: list[str]) -> dict[str, str]:
        """The topics' ids; where the brokers do not answer, what is known of them already."""
        found = {name: self.topic_ids[name] for name in names if name in self.topic_ids}
        described = self._admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_SECONDS)
        for name, future in described.items():
            with suppress(KafkaException):
                topic_id = str(future.result().topic_id)
                if topic_id != _NO_ID:
                    found[name] = topic_id
        return found

    def _offsets(self, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        return self._list(dict.fromkeys(partitions, spec))

    def _list(self, wanted: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int]:
        """Ask for offsets; partitions that are without a leader for a while are asked for again.

        Raises:
            BrokerUnreachable: some did not answer within TIMEOUT_SECONDS.
            UnknownTopic: a partition is gone since it was looked for.
        """
        found: dict[TopicPartition, int] = {}
        left = dict(wanted)
        began = time.monotonic()
        patience_seconds = ATTEMPT_SECONDS
        while left:
            answered, failure = self._ask(left, min(patience_seconds, TIMEOUT_SECONDS))
            found |= answered
            left = {tp: spec for tp, spec in left.items() if tp not in found}
            if left:
                waited = time.monotonic() - began
                if waited > TIMEOUT_SECONDS or (failure is not None and not _passes(failure.args[0])):
                    reason = failure.args[0].str() if failure is not None else "no answer"
                    raise BrokerUnreachable(
                        f"the offsets of {next(iter(left))} could not be listed at {self._servers}: {reason}"
                    ) from failure
                time.sleep(RETRY_SECONDS)
                patience_seconds *= 2
                # Else it would go by the leaders and epochs that it knew before, for as long as it lives.
                topics = self._topics()
                gone = [tp for tp in left if tp.partition not in topics.get(tp.topic, ())]
                if gone and waited > GONE_SECONDS:
                    raise UnknownTopic(f"{gone[0]} is not there any more at {self._servers}")
        return found

    def _ask(
        self, wanted: Mapping[TopicPartition, OffsetSpec], timeout_seconds: float
    ) -> tuple[dict[TopicPartition, int], KafkaException | None]:
        """Ask once: what is answered, and a failure if there is one.

        While a broker dies or comes back, the client answers for some with no offset and no error either.
        """
        asked = {ClientPartition(tp.topic, tp.partition): spec for tp, spec in wanted.items()}
        futures = self._admin.list_offsets(asked, isolation_level=self._isolation, request_timeout=timeout_seconds)
        answered: dict[TopicPartition, int] = {}
        failure: KafkaException | None = None
        for tp, future in futures.items():
            try:
                offset = future.result().offset
            except KafkaException as error:
                failure = error
            else:
                if offset != OFFSET_INVALID:
                    answered[TopicPartition(tp.topic, tp.partition)] = offset
        return answered, failure


def _passes(error: KafkaError) -> bool:
    """Whether an error is worth another try: an election is under way, a connection broke, or a broker that has just
    started does not know of anything yet.
    """
    return bool(error.retriable()) or error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._NOENT,  # no partition that was asked for has a leader
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
    )


class Reader:
    """Reads ranges of records.

    Args:
        client: settings of the client.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._troubles = Troubles()
        settings: dict[str, Any] = {
            **_DEFAULTS,
            "fetch.wait.max.ms": "100",
            # With its default of a second the client falls asleep each time it has read so far ahead.
            "fetch.queue.backoff.ms": "5",
            "queued.min.messages": "20000",
            _ISOLATION: _READ_UNCOMMITTED,
            **client,
            "group.id": "purgatorio-spark",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": self._troubles,
        }
        self._servers = client["bootstrap.servers"]
        self._consumer = Consumer(settings)

    def read(self, ranges: list[OffsetRange]) -> Iterator[list[Message]]:
        """The records of the ranges, in batches; each partition in order.

        Raises:
            BrokerUnreachable: nothing came for TIMEOUT_SECONDS.
            KafkaException: a record cannot be read: deleted meanwhile, or forbidden.
        """
        for wave in _waves(ranges):
            yield from self._read(wave)

    def _read(self, ranges: list[OffsetRange]) -> Iterator[list[Message]]:
        """Read ranges of different partitions."""
        left = {(each.topic, each.partition): each.end for each in ranges}
        unread = sum(each.size for each in ranges)
        self._consumer.assign([ClientPartition(each.topic, each.partition, each.start) for each in ranges])
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while left:
            # It returns early only with as many as it was asked for: at the end of the ranges these must not be more
            # than there are, and where compaction left gaps, it must not wait for long.
            messages = self._consumer.consume(min(POLL_RECORDS, max(1, unread)), POLL_SECONDS)
            if messages:
                give_up = time.monotonic() + TIMEOUT_SECONDS
            elif time.monotonic() > give_up:
                (topic, partition), end = next(iter(left.items()))
                raise BrokerUnreachable(
                    f"nothing came from {self._servers} for {TIMEOUT_SECONDS:g} s, though {topic}-{partition} is to be "
                    f"read up to offset {end}{self._troubles}"
                )
            if not _all_within(messages, left):
                messages = [message for message in messages if self._take(message, left)]
            unread -= len(messages)
            yield messages

    def _take(self, message: Message, left: dict[tuple[str, int], int]) -> bool:
        """Whether a message is a record of the ranges; those that are done are dropped from `left`."""
        error = message.error()
        at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise KafkaException(error)  # what is about no partition is about the client as a whole
        key = (topic, partition)
        end = left.get(key)
        if error is not None and not at_end and end is not None:
            raise KafkaException(error)
        if end is None:
            return False
        # The end of the log counts as a position: the last records may have been compacted away.
        position = offset + (not at_end)
        if position >= end:
            del left[key]
            self._consumer.incremental_unassign([ClientPartition(*key)])
        return not at_end and offset < end

    def close(self) -> None:
        """Read no more.

        The client itself ends when it is forgotten: its own `close` would look for a group coordinator, to leave a
        group that it is not in, for as long as there is none.
        """
        self._consumer.unassign()


def _all_within(messages: list[Message], left: Mapping[tuple[str, int], int]) -> bool:
    """Whether all messages are records of the ranges, and no range ends with them.

    They mostly are, and it is found here without a step in Python for each of them.
    """
    if any(map(Message.error, messages)):
        return False
    # Of a record, which has no error, all of these are known.
    offsets = cast("Iterator[int]", map(Message.offset, messages))
    if max(offsets, default=0) + 1 >= min(left.values()):
        return False
    places = set(zip(map(Message.topic, messages), map(Message.partition, messages), strict=True))
    return places <= cast("KeysView[tuple[str | None, int | None]]", left.keys())


def _waves(ranges: list[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Ranges of different partitions together; a second range of a partition comes after the first."""
    waiting = list(ranges)
    while waiting:
        wave: dict[tuple[str, int], OffsetRange] = {}
        later = []
        for each in waiting:
            if (each.topic, each.partition) in wave:
                later.append(each)
            else:
                wave[each.topic, each.partition] = each
        yield list(wave.values())
        waiting = later
