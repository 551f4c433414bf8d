"""Records without a client, topics, the report and the reset, as the operations that other languages use."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from types import SimpleNamespace

import httpx
import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.clock import ShowClock
from purgatorio.admin.operations.control.importing import InitialTopic, create
from purgatorio.admin.operations.control.topic_control import append
from purgatorio.admin.operations.records import ProduceRecords, ReadRecords
from purgatorio.admin.operations.snapshots import Reset
from purgatorio.admin.operations.topics import CreateTopic
from purgatorio.broker.cluster.errors import Invalid
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.log.validator import UNPACKED_PER_UNIT, WORK_PER_REQUEST
from purgatorio.protocol.compression import Compression, compress
from purgatorio.protocol.record import Record, RecordsEncoder
from purgatorio.protocol.records import seal_batch
from purgatorio.testing import Kafka, cluster


@pytest.fixture(scope="module")
def shared() -> Iterator[Kafka]:
    """A cluster that begins with a topic."""
    with cluster(topics={"orders": 3}) as running:
        yield running


@pytest.fixture
def kafka(shared: Kafka) -> Iterator[Kafka]:
    """The cluster, which is reset after the test."""
    yield shared
    shared.do(Reset())


def test_records_are_produced_and_read(kafka: Kafka) -> None:
    given = [{"key": "a", "value": {"id": 1}}, {"value_base64": base64.b64encode(b"\xff").decode(), "partition": 2}]
    told = kafka.do(ProduceRecords("orders", given))["records"]
    assert told[1] == {"partition": 2, "offset": 0}
    assert kafka.records("orders", told[0]["partition"])[0].value == b'{"id":1}'
    read = kafka.do(ReadRecords("orders", 2))
    assert (read["more"], read["records"][0]["value_base64"]) == (False, "/w==")


def test_a_read_begins_at_an_offset_and_has_a_limit(kafka: Kafka) -> None:
    kafka.do(ProduceRecords("orders", [{"value": str(number), "partition": 1} for number in range(5)]))
    read = kafka.do(ReadRecords("orders", 1, offset=2, limit=2))
    assert ([each["value"] for each in read["records"]], read["more"]) == (["2", "3"], True)
    assert kafka.do(ReadRecords("orders", 1, offset=9)) == {"topic": "orders", "records": [], "more": False}


async def test_a_batch_that_cannot_be_read_is_told_in_a_sentence() -> None:
    """It unpacks to more than is looked at when it is produced, so that it was taken by its header."""
    encoder = RecordsEncoder(0, 0)
    encoder.add(Record(0, 0, None, None))
    header = {"base_offset": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "leader_epoch": -1}
    payload = compress(Compression.ZSTD, bytes(WORK_PER_REQUEST * UNPACKED_PER_UNIT + 1))
    batch = seal_batch(encoder, payload, compression=Compression.ZSTD, **header)
    async with Cluster(ClusterConfig(brokers=1, port=0), admin=False) as alone:
        await create(alone, [InitialTopic("orders", 1)], random.Random(1))
        (result,) = await append(alone, [(TopicPartition("orders", 0), batch)], "test")
        assert not result.error_code
        with pytest.raises(Invalid, match="a batch of orders-0 cannot be read: "):
            await ReadRecords("orders").run(SimpleNamespace(cluster=alone))  # type: ignore[arg-type]


def test_what_cannot_be_is_told(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"records\.1: a record has no 'vlaue'"):
        kafka.do(ProduceRecords("orders", [{"value": "a"}, {"vlaue": "a"}]))
    with pytest.raises(ValueError, match="topic 'orders' has no partition 7"):
        kafka.do(ProduceRecords("orders", [{"partition": 7}]))
    with pytest.raises(ValueError, match="there is no topic 'bills', only orders"):
        kafka.do(ReadRecords("bills"))
    with pytest.raises(ValueError, match="isolation_level is read_uncommitted or read_committed"):
        ReadRecords("orders", isolation_level="read_comitted")
    with pytest.raises(ValueError, match="topic 'orders' was not created: "):
        kafka.do(CreateTopic("orders"))
    kafka.topic("small", max_message_bytes=100)
    with pytest.raises(ValueError, match="small-0: "):
        kafka.do(ProduceRecords("small", [{"value": "x" * 200}]))


def test_a_topic_is_created_with_its_configs(kafka: Kafka) -> None:
    made = kafka.do(CreateTopic("bills", 2, 1, {"retention.ms": "60000"}))
    assert made == {"topic": "bills", "partition_count": 2}
    with pytest.raises(ValueError, match=r"there is no topic config 'retention\.mss'; did you mean"):
        kafka.do(CreateTopic("others", configs={"retention.mss": "60000"}))


def test_a_reset_leaves_what_the_cluster_began_with(kafka: Kafka) -> None:
    kafka.topic("bills")
    kafka.produce("orders", "a")
    kafka.clock.freeze()
    assert kafka.do(Reset()) == {"state": "reset"}
    assert kafka.records("orders") == []
    with pytest.raises(ValueError, match="there is no topic 'bills', only orders"):
        kafka.records("bills")


def test_a_reset_that_is_refused_leaves_the_brokers_time(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.clock.freeze()
    with monkeypatch.context() as stopping:
        stopping.setattr(kafka._cluster, "_changing", {1: "being stopped"})
        with pytest.raises(ValueError, match="broker 1 is being stopped"):
            kafka.do(Reset())
    assert kafka.do(ShowClock())["frozen"]


def test_many_records_are_produced_over_http(kafka: Kafka) -> None:
    """Other operations take 64 KiB."""
    records = [{"value": "x" * 100, "partition": 0} for _ in range(2_000)]
    answer = httpx.post(f"{kafka.admin_url}/api/v1/topics/orders/records", json={"records": records})
    assert answer.status_code == 200
    assert answer.json()["records"][-1] == {"partition": 0, "offset": 1_999}
