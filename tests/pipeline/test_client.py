"""The client behind the data source, against a cluster in a process of its own; without Spark."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="install purgatorio[spark]")

from confluent_kafka import OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from purgatorio.admin.cli.admin_client import AdminClient as Admin
from purgatorio.pipeline import client as client_module
from purgatorio.pipeline.client import BrokerUnreachable, Metadata, RecordReader, UnknownTopic, admin_client
from purgatorio.pipeline.offsets import OffsetRange, TopicPartition
from purgatorio.pipeline.options import OptionError, ReadOptions, read_options
from purgatorio.pipeline.rows import to_arrow
from tests.conftest import StartPurgatorio
from tests.pipeline.conftest import new_topic, servers_of

Produce = Callable[..., str]


@pytest.fixture
def produce(servers: str) -> Produce:
    """Return a function that creates a topic, writes numbers to its partitions in turn, and returns its name."""

    def make(count: int, partitions: int = 2) -> str:
        topic = new_topic(servers, partitions)
        producer = Producer({"bootstrap.servers": servers})
        for number in range(count):
            producer.produce(topic, str(number), partition=number % partitions)
        assert producer.flush(30) == 0
        return topic

    return make


def client(servers: str, **settings: str) -> dict[str, str]:
    return {"bootstrap.servers": servers, **settings}


def read(servers: str, *ranges: OffsetRange) -> list[tuple[int, int, int]]:
    """Return partition, offset and number of each record."""
    messages = [message for batch in RecordReader(client(servers)).read(list(ranges)) for message in batch]
    return [_row(message) for message in messages]


def _row(message: Message) -> tuple[int, int, int]:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert isinstance(value, bytes)
    return partition, offset, int(value)


def options(servers: str, **given: str) -> ReadOptions:
    return read_options({"kafka.bootstrap.servers": servers, **given}, streaming=False)


def test_a_misspelt_setting_is_an_error_with_the_near_one() -> None:
    with pytest.raises(OptionError, match=r"kafka.securty.protocol is no setting .*; did you mean kafka.security.prot"):
        admin_client({"securty.protocol": "SSL"})
    with pytest.raises(OptionError, match=r"kafka.no.such.thing is no setting .*, whose names are not always those of"):
        admin_client({"no.such.thing": "1"})


def test_exactly_the_records_of_the_ranges_are_read(servers: str, produce: Produce) -> None:
    topic = produce(100)
    found = read(servers, OffsetRange(topic, 0, 10, 20), OffsetRange(topic, 1, 45, 50))
    assert sorted(found) == [(0, o, 2 * o) for o in range(10, 20)] + [(1, o, 2 * o + 1) for o in range(45, 50)]


def test_two_ranges_of_one_partition_are_read_in_order(servers: str, produce: Produce) -> None:
    topic = produce(100)
    found = read(servers, OffsetRange(topic, 0, 30, 35), OffsetRange(topic, 0, 0, 3))
    assert [offset for _, offset, _ in found] == [30, 31, 32, 33, 34, 0, 1, 2]


def test_ranges_with_compacted_records_are_read_to_their_ends(start_purgatorio: StartPurgatorio) -> None:
    settings = ("--set", "log.cleaner.backoff.ms=20", "--brokers", "1", "--log-level", "error")
    servers = servers_of(start_purgatorio("cluster", "--port", "0", "--admin-port", "0", *settings).greeting())
    topic = new_topic(servers, 1, cleanup_policy="compact", segment_bytes="1024", min_cleanable_dirty_ratio="0.01")
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for number in range(40):
        producer.produce(topic, f"{number:0>400}", key="the only key")
        producer.flush(10)
    give_up = time.monotonic() + 20
    left = read(servers, OffsetRange(topic, 0, 0, 40))
    while len(left) > 3:  # the records of the active segment, and one before it
        assert time.monotonic() < give_up, "nothing was compacted"
        left = read(servers, OffsetRange(topic, 0, 0, 40))
    assert left[-1] == (0, 39, 39)
    assert read(servers, OffsetRange(topic, 0, 0, 30)) == [], "all records of the range are compacted"
    assert read(servers, OffsetRange(topic, 0, 20, 40))[-1] == (0, 39, 39)


def test_deleted_records_are_an_error_and_not_a_timeout(servers: str, produce: Produce) -> None:
    topic = produce(100)
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([ClientPartition(topic, 0, 20)]).values():
        future.result()
    with pytest.raises(KafkaException, match=r"OFFSET_OUT_OF_RANGE|out of range"):
        read(servers, OffsetRange(topic, 0, 10, 30))


def test_earliest_and_latest_offsets_are_listed_and_a_timestamp_is_found(servers: str, produce: Produce) -> None:
    topic = produce(11)
    metadata = Metadata(client(servers))
    found = metadata.partitions(options(servers, subscribe=topic))
    assert found == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert metadata.earliest(found) == dict.fromkeys(found, 0)
    latest = metadata.latest(found)
    assert list(latest.values()) == [6, 5]
    for timestamp, expected in (("0", [0, 0]), ("99999999999999", [6, 5])):
        starting = options(servers, subscribe=topic, startingTimestamp=timestamp).starting
        assert list(metadata.by_timestamp(found, starting, latest).values()) == expected


def test_a_pattern_matches_whole_names(servers: str, produce: Produce) -> None:
    topic = produce(1, partitions=1)
    metadata = Metadata(client(servers))
    assert metadata.partitions(options(servers, subscribePattern=f"{topic[:-1]}.")) == [TopicPartition(topic, 0)]
    assert metadata.partitions(options(servers, subscribePattern=topic[:-1])) == []


def test_a_topic_that_is_created_again_has_another_id(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    name = new_topic(servers, 1)
    metadata = Metadata(client(servers))
    metadata.partitions(options(servers, subscribe=name))
    first = dict(metadata.topic_ids)
    assert list(first) == [name]
    admin.delete_topics([name])[name].result()
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    metadata.partitions(options(servers, subscribe=name))
    assert list(metadata.topic_ids) == [name]
    assert metadata.topic_ids != first


def test_the_error_names_the_unknown_topic_or_partition(servers: str, produce: Produce) -> None:
    topic = produce(1)
    metadata = Metadata(client(servers))
    with pytest.raises(UnknownTopic, match="there is no topic 'nowhere' at"):
        metadata.partitions(options(servers, subscribe=f"{topic},nowhere"))
    with pytest.raises(UnknownTopic, match=f"topic '{topic}' has 2 partitions; there is no 7"):
        metadata.partitions(options(servers, assign=f'{{"{topic}": [1, 7]}}'))


def test_unreachable_brokers_are_an_error_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "TIMEOUT_SECONDS", 0.5)
    nobody = "127.0.0.1:1"
    with pytest.raises(BrokerUnreachable, match=r"no broker at 127\.0\.0\.1:1 answers within 0\.5 s"):
        Metadata(client(nobody)).partitions(options(nobody, subscribe="orders"))
    with pytest.raises(BrokerUnreachable, match=r"nothing came from 127\.0\.0\.1:1 for 0\.5 s"):
        list(RecordReader(client(nobody)).read([OffsetRange("orders", 0, 0, 1)]))


def test_rows_have_the_clients_times_and_headers(servers: str, produce: Produce) -> None:
    topic = produce(0, partitions=1)
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"v", key=b"k", timestamp=1_700_000_000_123, headers=[("a", b"1"), ("a", None)])
    producer.produce(topic, None, key=b"gone")
    producer.flush(10)
    (batch,) = to_arrow(RecordReader(client(servers)).read([OffsetRange(topic, 0, 0, 2)]), include_headers=True)
    first, second = batch.to_pylist()
    assert (first["key"], first["value"], first["timestampType"]) == (b"k", b"v", 0)
    assert first["timestamp"].timestamp() == 1_700_000_000.123
    assert first["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert (second["key"], second["value"], second["headers"]) == (b"gone", None, None)


def test_garbage_collection_is_enabled_while_the_caller_uses_the_rows(servers: str, produce: Produce) -> None:
    topic = produce(10, partitions=1)
    batches = to_arrow(RecordReader(client(servers)).read([OffsetRange(topic, 0, 0, 10)]), include_headers=False)
    assert sum(batch.num_rows for batch in batches if gc.isenabled()) == 10
    assert gc.isenabled()


class AnswersOf:
    """A fake admin client that answers each request for offsets with the next of the given answers."""

    def __init__(self, *answers: int | KafkaError) -> None:
        self._answers = list(answers)
        self.timeouts_seconds: list[float] = []

    def poll(self, timeout: float) -> None:
        pass

    def list_topics(self, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics={})

    def list_offsets(
        self, wanted: dict[ClientPartition, OffsetSpec], request_timeout: float, **_: object
    ) -> dict[ClientPartition, Any]:
        self.timeouts_seconds.append(request_timeout)
        answer = self._answers.pop(0)
        future: Future[Any] = Future()
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(SimpleNamespace(offset=answer))
        return dict.fromkeys(wanted, future)


def told(monkeypatch: pytest.MonkeyPatch, *answers: int | KafkaError) -> Metadata:
    monkeypatch.setattr(client_module, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(client_module, "AdminClient", lambda _: AnswersOf(*answers))
    return Metadata(client("x:1"))


def test_an_attempt_at_a_dead_leader_does_not_take_the_whole_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt at a dead leader takes all its time; the next one goes to the new leader."""
    tp = TopicPartition("orders", 0)
    metadata = told(monkeypatch, OFFSET_INVALID, KafkaError(KafkaError._TIMED_OUT), 7)
    assert metadata.latest([tp]) == {tp: 7}
    assert metadata._admin.timeouts_seconds == [2.0, 4.0, 8.0]  # type: ignore[attr-defined]


def test_offsets_that_the_client_does_not_know_while_a_broker_dies_are_requested_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tp = TopicPartition("orders", 0)
    assert told(monkeypatch, OFFSET_INVALID, 7).latest([tp]) == {tp: 7}
    at = options("x:1", subscribe="orders", startingTimestamp="5").starting
    assert told(monkeypatch, OFFSET_INVALID, 3).by_timestamp([tp], at, {tp: 7}) == {tp: 3}
    assert told(monkeypatch, OFFSET_END).by_timestamp([tp], at, {tp: 7}) == {tp: 7}


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._NOENT,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TIMED_OUT,
    ],
)
def test_errors_of_a_dying_or_starting_broker_are_retried(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    tp = TopicPartition("orders", 0)
    assert told(monkeypatch, KafkaError(code), 7).latest([tp]) == {tp: 7}


def test_other_errors_are_raised_at_once_and_retried_ones_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    tp = TopicPartition("orders", 0)
    with pytest.raises(BrokerUnreachable, match=r"offsets of orders-0 could not be listed at x:1: .*uthoriz"):
        told(monkeypatch, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)).latest([tp])
    monkeypatch.setattr(client_module, "TIMEOUT_SECONDS", -1.0)
    with pytest.raises(BrokerUnreachable, match="could not be listed at x:1: no answer"):
        told(monkeypatch, OFFSET_INVALID).latest([tp])


def test_a_deleted_partition_is_an_error_sooner_than_an_unreachable_broker(
    servers: str, produce: Produce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "UNKNOWN_PARTITION_SECONDS", 0.1)
    topic = produce(10)
    metadata = Metadata(client(servers))
    found = metadata.partitions(options(servers, subscribe=topic))
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result()
    with pytest.raises(UnknownTopic, match=rf"{topic}-0 is not there any more at"):
        metadata.latest(found)


def test_the_error_of_a_timeout_tells_the_last_connection_error(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "TIMEOUT_SECONDS", 0.5)
    settings = client(servers, **{"security.protocol": "SSL"})
    with pytest.raises(BrokerUnreachable, match=r"answers within 0\.5 s; its last error: .*SSL"):
        Metadata(settings).partitions(options(servers, subscribe="orders"))
    with pytest.raises(BrokerUnreachable, match=r"orders-0 is to be read up to offset 1; its last error: .*SSL"):
        list(RecordReader(settings).read([OffsetRange("orders", 0, 0, 1)]))


def test_offsets_are_listed_while_and_after_a_broker_dies(start_purgatorio: StartPurgatorio) -> None:
    greeting = start_purgatorio("cluster", "--port", "0", "--admin-port", "0", "--log-level", "error").greeting()
    servers, url = servers_of(greeting), re.search(r"page +(\S+)", greeting)
    assert url is not None
    admin = Admin(url[1])
    topic = new_topic(servers, 3, replicas=3)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(30):
        producer.produce(topic, b"v", partition=number % 3)
    assert producer.flush(30) == 0
    metadata = Metadata(client(servers))
    found = dict.fromkeys([TopicPartition(topic, number) for number in range(3)], 10)
    for what in ("brokers/1/kill", "brokers/1/start"):
        admin.post(what)
        for _ in range(5):
            assert metadata.latest(list(found)) == found
