"""The Kafka client of the data source: confluent-kafka, reduced to metadata, offsets and ranges of records."""

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

from purgatorio.pipeline.java_settings import near
from purgatorio.pipeline.offsets import OffsetRange, Offsets, TopicPartition
from purgatorio.pipeline.options import OptionError, Position, ReadOptions, Refused

TIMEOUT_SECONDS: Final = 20.0
"""The time limit of a broker's response."""
ATTEMPT_SECONDS: Final = 2.0
"""The time limit of the first attempt to list offsets; each further one may take twice as long. An attempt at a dead
broker takes all its time, and only the next one goes to the new leader.
"""
POLL_RECORDS: Final = 10_000
POLL_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 0.1
UNKNOWN_PARTITION_SECONDS: Final = 2.0
"""The time after which a partition that brokers do not know is an error; until then the client retries."""

_DEFAULTS: Final = {"client.id": "purgatorio-spark", "log_level": "0"}
_NO_ID: Final = str(Uuid(0, 0))
_ISOLATION: Final = "isolation.level"
_READ_UNCOMMITTED: Final = "read_uncommitted"
"""The default of Spark's Kafka connector; the client's default is read_committed."""


class BrokerUnreachable(Refused):
    """No broker answers in time."""


class UnknownTopic(Refused):
    """The topic or partition does not exist."""


def admin_client(settings: Mapping[str, Any]) -> AdminClient:
    """Make a client, which checks its settings.

    Raises:
        OptionError: a setting is unknown to the client, or has a value that it does not take.
    """
    try:
        return AdminClient({**_DEFAULTS, **settings})
    except KafkaException as error:
        said = error.args[0].str()
        if unknown := re.fullmatch(r'No such configuration property: "(.*)"', said):
            found = near(unknown[1])
            hint = f"; did you mean kafka.{found}?" if found else ", whose names are not always those of Java"
            said = f"kafka.{unknown[1]} is no setting of the client, librdkafka{hint}"
        raise OptionError(said) from None


class ConnectionErrors:
    """Keeps the last error of a client's connections, which its callback gets; the caller of the client gets a
    timeout."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Keep the error; the client calls this in the thread that calls the client."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # the error before it says more
            self.last = error

    def __str__(self) -> str:
        return "" if self.last is None else f"; its last error: {self.last.str()}"


class Metadata:
    """Looks up partitions and their first and last offsets, for all partitions in one request.

    Args:
        client: settings of the client.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self.topic_ids: dict[str, str] = {}
        """The ids of the topics that `partitions` found last, by name, if the brokers give ids (KIP-516). A topic that
        is deleted and created again has another id.
        """
        self._servers = client["bootstrap.servers"]
        self._errors = ConnectionErrors()
        self._admin = admin_client({**client, "error_cb": self._errors})
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if client.get(_ISOLATION, _READ_UNCOMMITTED) == _READ_UNCOMMITTED
            else IsolationLevel.READ_COMMITTED
        )

    def partitions(self, options: ReadOptions) -> list[TopicPartition]:
        """Return the partitions that the options select.

        Raises:
            UnknownTopic: a topic or partition that the options name does not exist.
            BrokerUnreachable: no broker answers.
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
        """Return the earliest offset of each partition."""
        return self._offsets(partitions, OffsetSpec.earliest())

    def latest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the latest offset of each partition, by the client's isolation level."""
        return self._offsets(partitions, OffsetSpec.latest())

    def by_timestamp(
        self, partitions: list[TopicPartition], position: Position, latest: Offsets
    ) -> dict[TopicPartition, int]:
        """Return the offsets of partitions whose position is a timestamp.

        The offset is that of the first record with this or a later timestamp, or the latest if there is none.

        Raises:
            OptionError: there is none, and the position needs one.
        """
        wanted = {}
        for tp in partitions:
            timestamp = position.timestamps_ms.get(tp.topic, {}).get(tp.partition, position.timestamp_ms)
            if timestamp is not None:
                wanted[tp] = OffsetSpec.for_timestamp(timestamp)
        found = self._list(wanted)
        if position.needs_records and (without := sorted(tp for tp, offset in found.items() if offset < 0)):
            raise OptionError(
                f"{without[0]} has no record as late as its starting time; with "
                "startingOffsetsByTimestampStrategy=latest it is read from its end"
            )
        return {tp: offset if offset >= 0 else latest[tp] for tp, offset in found.items()}

    def _topics(self) -> dict[str, list[int]]:
        self._admin.poll(0)
        self._errors.last = None
        try:
            found = self._admin.list_topics(timeout=TIMEOUT_SECONDS)
        except KafkaException as error:
            self._admin.poll(0)
            raise BrokerUnreachable(
                f"no broker at {self._servers} answers within {TIMEOUT_SECONDS:g} s{self._errors}"
            ) from error
        return {name: sorted(topic.partitions) for name, topic in sorted(found.topics.items()) if topic.error is None}

    def _ids(self, names: list[str]) -> dict[str, str]:
        """Return the topics' ids; the id that is known already if the brokers do not answer."""
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
        """List offsets, and retry for partitions that are without a leader for a while.

        Raises:
            BrokerUnreachable: some offsets could not be listed within TIMEOUT_SECONDS.
            UnknownTopic: a partition has been deleted since `partitions` found it.
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
                if waited > TIMEOUT_SECONDS or (failure is not None and not _is_transient(failure.args[0])):
                    reason = failure.args[0].str() if failure is not None else "no answer"
                    raise BrokerUnreachable(
                        f"the offsets of {next(iter(left))} could not be listed at {self._servers}: {reason}"
                    ) from failure
                time.sleep(RETRY_SECONDS)
                patience_seconds *= 2
                # Without new metadata the client would use the old leaders and epochs for ever.
                topics = self._topics()
                missing = [tp for tp in left if tp.partition not in topics.get(tp.topic, ())]
                if missing and waited > UNKNOWN_PARTITION_SECONDS:
                    raise UnknownTopic(f"{missing[0]} is not there any more at {self._servers}")
        return found

    def _ask(
        self, wanted: Mapping[TopicPartition, OffsetSpec], timeout_seconds: float
    ) -> tuple[dict[TopicPartition, int], KafkaException | None]:
        """List offsets once; return those that were answered, and a failure if there is one.

        While a broker dies or comes back, the client may return neither an offset nor an error for a partition.
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


def _is_transient(error: KafkaError) -> bool:
    """Whether to retry after an error: during an election, after a lost connection, or while a broker starts and does
    not know its topics yet.
    """
    return bool(error.retriable()) or error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._NOENT,  # none of the partitions has a leader
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


class RecordReader:
    """Reads ranges of records.

    Args:
        client: settings of the client.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._errors = ConnectionErrors()
        settings: dict[str, Any] = {
            **_DEFAULTS,
            "fetch.wait.max.ms": "100",
            # With its default of a second, the client stops fetching that long whenever its queue is full.
            "fetch.queue.backoff.ms": "5",
            "queued.min.messages": "20000",
            _ISOLATION: _READ_UNCOMMITTED,
            **client,
            "group.id": "purgatorio-spark",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": self._errors,
        }
        self._servers = client["bootstrap.servers"]
        self._consumer = Consumer(settings)

    def read(self, ranges: list[OffsetRange]) -> Iterator[list[Message]]:
        """Iterate over the records of the ranges, in batches; the records of a partition are in order.

        Raises:
            BrokerUnreachable: no record arrived for TIMEOUT_SECONDS.
            KafkaException: a record cannot be read: it was deleted, or the client is not authorized.
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
            # `consume` returns early only with the full number of records. At the end of the ranges this number must
            # not be more than are left; and POLL_SECONDS is short, as compaction may have left fewer.
            messages = self._consumer.consume(min(POLL_RECORDS, max(1, unread)), POLL_SECONDS)
            if messages:
                give_up = time.monotonic() + TIMEOUT_SECONDS
            elif time.monotonic() > give_up:
                (topic, partition), end = next(iter(left.items()))
                raise BrokerUnreachable(
                    f"nothing came from {self._servers} for {TIMEOUT_SECONDS:g} s, though {topic}-{partition} is to be "
                    f"read up to offset {end}{self._errors}"
                )
            if not _all_within(messages, left):
                messages = [message for message in messages if self._take(message, left)]
            unread -= len(messages)
            yield messages

    def _take(self, message: Message, left: dict[tuple[str, int], int]) -> bool:
        """Whether a message is a record of the ranges; remove its range from `left` if the range ends with it."""
        error = message.error()
        at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise KafkaException(error)  # an error without a partition concerns the whole client
        key = (topic, partition)
        end = left.get(key)
        if error is not None and not at_end and end is not None:
            raise KafkaException(error)
        if end is None:
            return False
        # The end of the log counts as a position: compaction may have removed the last records of the range.
        position = offset + (not at_end)
        if position >= end:
            del left[key]
            self._consumer.incremental_unassign([ClientPartition(*key)])
        return not at_end and offset < end

    def close(self) -> None:
        """Stop reading.

        The client itself ends when it is garbage-collected. Its own `close` would wait for a group coordinator, to
        leave a group that it never joined, and a cluster may have none.
        """
        self._consumer.unassign()


def _all_within(messages: list[Message], left: Mapping[tuple[str, int], int]) -> bool:
    """Whether all messages are records of the ranges, and no range ends with them.

    This is the usual case, and this check of it takes no Python step per message.
    """
    if any(map(Message.error, messages)):
        return False
    # A record without an error has topic, partition and offset.
    offsets = cast("Iterator[int]", map(Message.offset, messages))
    if max(offsets, default=0) + 1 >= min(left.values()):
        return False
    places = set(zip(map(Message.topic, messages), map(Message.partition, messages), strict=True))
    return places <= cast("KeysView[tuple[str | None, int | None]]", left.keys())


def _waves(ranges: list[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Group ranges so that each group has at most one range of a partition; groups keep a partition's order."""
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
